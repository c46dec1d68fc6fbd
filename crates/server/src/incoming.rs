//! Request bodies, and the unread rest of a body.
//!
//! A response often precedes the end of the body, as when the user is not allowed to write. The client still sends the
//! body, and may not read the response before it has. So the rest of a body is read and discarded, up to a limit of
//! bytes and time; beyond it, the request is ended as the protocol does without harm: `Connection: close` and a
//! lingering socket, or RST_STREAM with NO_ERROR.

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

/// Largest body of a request in bytes.
pub const MAX_BODY: usize = 3 << 20;
/// Bytes discarded before an HTTP/1.1 response, so that the connection can be reused. The number is that of Go's
/// server. A client with more to send must use another connection.
const MOST_BEFORE_ANSWER: u64 = 256 << 10;
/// Bytes discarded while an HTTP/2 response is sent: the largest body.
const MOST_BESIDE_ANSWER: u64 = MAX_BODY as u64;

/// Body of a request as it arrives. Its unread rest goes back to the connection on drop.
#[derive(Debug)]
pub struct IncomingBody {
    body: Option<Incoming>,
    /// Whether `100 Continue` is not needed: the client did not send `Expect: 100-continue`, or the body has been read
    /// from.
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

/// Receives the rest of a body that the handler did not read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left(Arc<Mutex<Option<Unread>>>);

impl Left {
    /// Takes the unread rest.
    pub fn take(&self) -> Option<Unread> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Unread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unread rest of a body.
#[derive(Debug)]
pub(crate) struct Unread {
    body: Incoming,
    wanted: bool,
}

impl Unread {
    /// Discards the rest before an HTTP/1.1 response; returns whether another request can follow on the connection. A
    /// client that still waits for `100 Continue` is not told to continue.
    pub async fn before_answer(self, patience: Duration) -> bool {
        self.wanted && self.throw_away(MOST_BEFORE_ANSWER, patience).await
    }

    /// Discards the rest while an HTTP/2 response is sent. If there is more, the stream is reset after the response.
    pub fn beside_answer(self, patience: Duration) {
        tokio::spawn(self.throw_away(MOST_BESIDE_ANSWER, patience));
    }

    /// Discards up to `most` bytes; returns whether that was all.
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
