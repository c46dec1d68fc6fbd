//! A request's body on its way in, and what is done with the rest of one that is not read to its end.
//!
//! An answer often comes before the body was read: who may not write is told so at once. The client still
//! sends it, and one that cannot send to the end may never look at the answer. So what is left of a body
//! is read and thrown away, up to a bound in bytes and in time; the rest is refused as the protocol does it
//! without harm: `Connection: close` and a socket that lingers, or RST_STREAM with NO_ERROR.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

/// The most that a request's body may have.
pub const MAX_BODY: usize = 3 << 20;
/// How much is thrown away before an HTTP/1.1 answer goes out, so that the connection can be used again.
/// The number is that of Go's server. A client that has more to send is told to use another connection.
const MOST_BEFORE_ANSWER: u64 = 256 << 10;
/// How much is thrown away beside an HTTP/2 answer: as much as any request may have.
const MOST_BESIDE_ANSWER: u64 = MAX_BODY as u64;

/// A request's body as it comes. What is left of it when it is dropped goes back to the connection.
#[derive(Debug)]
pub struct IncomingBody {
    body: Option<Incoming>,
    /// Whether it has been read from: then a client that expects `100 Continue` was told to go on.
    wanted: bool,
    left: Left,
}

impl IncomingBody {
    pub(crate) fn new(body: Incoming, headers: &HeaderMap) -> (Self, Left) {
        let expects = headers.get(header::EXPECT).is_some();
        let left = Left::default();
        (IncomingBody { body: Some(body), wanted: !expects, left: left.clone() }, left)
    }
}

impl http_body::Body for IncomingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.wanted = true;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.left.lock() = Some(Unread { body, wanted: self.wanted });
        }
    }
}

/// Takes the rest of a body that the handler does not read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left(Arc<Mutex<Option<Unread>>>);

impl Left {
    /// What was left.
    pub fn take(&self) -> Option<Unread> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Unread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rest of a body.
#[derive(Debug)]
pub(crate) struct Unread {
    body: Incoming,
    wanted: bool,
}

impl Unread {
    /// Throws it away before an HTTP/1.1 answer: whether another request can follow. A client that
    /// waits to be told to go on is not.
    pub async fn before_answer(self, patience: Duration) -> bool {
        self.wanted && self.throw_away(MOST_BEFORE_ANSWER, patience).await
    }

    /// Throws it away beside an HTTP/2 answer. The stream is reset if there is more, once the answer is
    /// out.
    pub fn beside_answer(self, patience: Duration) {
        tokio::spawn(self.throw_away(MOST_BESIDE_ANSWER, patience));
    }

    /// Whether that was all.
    async fn throw_away(mut self, most: u64, patience: Duration) -> bool {
        if self.body.size_hint().lower() > most {
            return false;
        }
        let mut left = most;
        let reading = async {
            while let Some(frame) = self.body.frame().await {
                let Ok(frame) = frame else { return false };
                let size = frame.data_ref().map_or(0, Bytes::len) as u64;
                match left.checked_sub(size) {
                    Some(less) => left = less,
                    None => return false,
                }
            }
            true
        };
        timeout(patience, reading).await.unwrap_or(false)
    }
}
