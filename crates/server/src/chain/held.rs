//! Values that live until a response's body has been sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::HeaderMap;
use http_body::Body as _;

use crate::body::{Body, Piece, Pieces};
use crate::handler::Response;

/// A value that is dropped when the response has been sent or the client has disconnected.
pub(crate) trait Hold: Send + Unpin + 'static {
    /// Called when so many bytes of the body are sent.
    fn sent(&mut self, _bytes: u64) {}
}

impl Hold for crate::lifecycle::InFlight {}

/// Keeps `held` until the response's body has been streamed. A body that is complete already is not waited for: the
/// server writes it when the client reads.
pub(crate) fn hold(response: Response, mut held: impl Hold) -> Response {
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
