//! The body of an answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

/// How much of an answer in pieces is made at a time. A client that does not read holds a few of them.
pub const PIECE: usize = 64 << 10;

/// How much room is left before what will be copied into TLS records. Large blocks begin where a page
/// does, a record's payload five bytes behind that, and where the target's place in its page is a little
/// behind the source's, `rep movsb` (what glibc copies with) is ten times slower on AMD's Zen: it was a
/// third of a list's CPU time.
pub(crate) const HEADROOM: usize = 256;

/// The body of an answer: bytes that are there, or pieces as they come.
#[derive(Default)]
pub struct Body(Inner);

#[derive(Default)]
enum Inner {
    #[default]
    Empty,
    Full(Bytes),
    Pieces(Pin<Box<dyn Pieces>>),
}

/// Where a body's pieces come from.
pub trait Pieces: Send {
    /// The next piece, when it is there; nothing after the last.
    fn poll_piece(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>>;

    /// What is said after the last piece, once it has been taken.
    fn trailers(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Option<HeaderMap> {
        None
    }

    /// How many bytes there will be, at least.
    fn at_least(&self) -> u64 {
        0
    }
}

/// A piece of a body, or the end of a body that will not be whole.
pub type Piece = Result<Bytes, Broken>;

/// Why a body breaks off. What is wrong cannot be told any more once a body has begun, but a client
/// must not take a part for the whole: its stream is reset, or its connection closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {}

impl Body {
    /// A body without bytes.
    pub fn empty() -> Self {
        Body(Inner::Empty)
    }

    /// A body that is made while it is sent.
    pub fn pieces(pieces: impl Pieces + 'static) -> Self {
        Body(Inner::Pieces(Box::pin(pieces)))
    }

    /// A body that never ends and has nothing: what was hung on the answer of a connection that goes on in
    /// another protocol lasts as long as that.
    pub fn held() -> Self {
        struct Held;
        impl Pieces for Held {
            fn poll_piece(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Piece>> {
                Poll::Pending
            }
        }
        Body::pieces(Held)
    }

    /// The next piece.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        if let Inner::Pieces(pieces) = &mut self.0 {
            return pieces.as_mut().poll_piece(context);
        }
        let frame = ready!(http_body::Body::poll_frame(Pin::new(self), context));
        Poll::Ready(frame.and_then(|frame| frame.map(|frame| frame.into_data().ok()).transpose()))
    }

    /// What is said after the last piece, once that has been taken.
    pub fn trailers(&mut self, context: &mut Context<'_>) -> Option<HeaderMap> {
        match &mut self.0 {
            Inner::Pieces(pieces) => pieces.as_mut().trailers(context),
            Inner::Empty | Inner::Full(_) => None,
        }
    }

    /// The bytes of a body that has them all; `None` for one that comes in pieces.
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
                    // A connection makes pieces of all its streams in one turn.
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
