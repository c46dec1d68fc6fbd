//! Things that end with an answer, not with the handler that began it.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::HeaderMap;
use http_body::Body as _;

use crate::body::{Body, Piece, Pieces};
use crate::handler::Response;

/// Something that lasts until an answer has been sent, or its client is gone: dropped then.
pub(super) trait Hold: Send + Unpin + 'static {
    /// So many bytes of the body are sent now.
    fn sent(&mut self, _bytes: u64) {}
}

impl Hold for crate::lifecycle::InFlight {}

/// Keeps `held` until the answer's body has been sent. A body that is there in full takes no time
/// of its own: the server writes it when the client reads.
pub(super) fn hold(response: Response, mut held: impl Hold) -> Response {
    match response.body().size_hint().exact() {
        Some(size) => {
            held.sent(size);
            response
        }
        None => response.map(|body| Body::pieces(Held { body, held: Some(held) })),
    }
}

struct Held<H> {
    body: Body,
    held: Option<H>,
}

impl<H: Hold> Pieces for Held<H> {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let piece = std::task::ready!(self.body.poll_piece(context));
        match (&piece, &mut self.held) {
            (Some(Ok(piece)), Some(held)) => held.sent(piece.len() as u64),
            (Some(Ok(_)), None) => {}
            (None | Some(Err(_)), held) => *held = None,
        }
        Poll::Ready(piece)
    }

    fn trailers(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Option<HeaderMap> {
        self.body.trailers(context)
    }
}
