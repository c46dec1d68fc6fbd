//! Things that end with an answer, not with the handler that began it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Body as _;

use crate::body::{Body, Pieces};
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
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let piece = std::task::ready!(next_piece(&mut self.body, context));
        match (&piece, &mut self.held) {
            (Some(piece), Some(held)) => held.sent(piece.len() as u64),
            (Some(_), None) => {}
            (None, held) => *held = None,
        }
        Poll::Ready(piece)
    }
}

/// The next piece of a body.
pub(super) fn next_piece(body: &mut Body, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
    let frame = std::task::ready!(Pin::new(body).poll_frame(context));
    Poll::Ready(frame.and_then(|frame| match frame {
        Ok(frame) => frame.into_data().ok(),
        Err(never) => match never {},
    }))
}
