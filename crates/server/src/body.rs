//! Response bodies.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

/// Bytes of a streamed body made at a time. A client that does not read holds a few pieces.
pub const PIECE: usize = 64 << 10;

/// Free bytes before data that will be copied into TLS records. Large blocks begin at a page, a record's payload five
/// bytes behind that, and where the target's offset in its page is a little above the source's, `rep movsb` (glibc's
/// copy) is ten times slower on AMD's Zen: it was a third of a list's CPU time.
pub(crate) const HEADROOM: usize = 256;

/// Body of a response: complete bytes, or pieces as they are made.
#[derive(Default)]
pub struct Body(Inner);

#[derive(Default)]
enum Inner {
    #[default]
    Empty,
    Full(Bytes),
    Pieces(Pin<Box<dyn Pieces>>),
}

/// Source of a streamed body.
pub trait Pieces: Send {
    /// The next piece; `None` after the last.
    fn poll_piece(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>>;

    /// Trailers, after the last piece.
    fn trailers(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Option<HeaderMap> {
        None
    }

    /// Lower bound of the number of bytes.
    fn at_least(&self) -> u64 {
        0
    }
}

/// A piece of a body, or the error that truncates it.
pub type Piece = Result<Bytes, Broken>;

/// Error that truncates a body. A response that has begun cannot report it, but the client must not take a part for the
/// whole: its stream is reset, or its connection closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {}

impl Body {
    /// An empty body.
    pub fn empty() -> Self {
        Body(Inner::Empty)
    }

    /// A streamed body.
    pub fn pieces(pieces: impl Pieces + 'static) -> Self {
        Body(Inner::Pieces(Box::pin(pieces)))
    }

    /// A body that never ends and has no bytes, for upgraded connections: values held by the response live as long as
    /// the connection.
    pub fn held() -> Self {
        struct Held;
        impl Pieces for Held {
            fn poll_piece(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Piece>> {
                Poll::Pending
            }
        }
        Body::pieces(Held)
    }

    /// Polls the next piece.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        if let Inner::Pieces(pieces) = &mut self.0 {
            return pieces.as_mut().poll_piece(context);
        }
        let frame = ready!(http_body::Body::poll_frame(Pin::new(self), context));
        Poll::Ready(frame.and_then(|frame| frame.map(|frame| frame.into_data().ok()).transpose()))
    }

    /// Trailers, after the last piece.
    pub fn trailers(&mut self, context: &mut Context<'_>) -> Option<HeaderMap> {
        match &mut self.0 {
            Inner::Pieces(pieces) => pieces.as_mut().trailers(context),
            Inner::Empty | Inner::Full(_) => None,
        }
    }

    /// The bytes of a complete body; `None` for a streamed one.
    pub fn bytes(&self) -> Option<Bytes> {
        match &self.0 {
            Inner::Empty => Some(Bytes::new()),
            Inner::Full(bytes) => Some(bytes.clone()),
            Inner::Pieces(_) => None,
        }
    }
}

impl<B: Into<Bytes>> From<B> for Body {
    fn from(bytes: B) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() { Body::empty() } else { Body(Inner::Full(bytes)) }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Inner::Empty => f.write_str("Body(empty)"),
            Inner::Full(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Inner::Pieces(_) => f.write_str("Body(pieces)"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.0 {
            Inner::Empty => Poll::Ready(None),
            Inner::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Inner::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Inner::Pieces(pieces) => {
                if let Some(piece) = ready!(pieces.as_mut().poll_piece(context)) {
                    // A connection polls the pieces of all its streams in one turn, so each is charged.
                    kevel_compute::charge_bytes(piece.as_ref().map_or(0, Bytes::len));
                    return Poll::Ready(Some(piece.map(Frame::data)));
                }
                let trailers = pieces.as_mut().trailers(context);
                self.0 = Inner::Empty;
                Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Empty => SizeHint::with_exact(0),
            Inner::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Pieces(pieces) => {
                let mut hint = SizeHint::default();
                hint.set_lower(pieces.at_least());
                hint
            }
        }
    }
}
