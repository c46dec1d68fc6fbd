//! A stream of a SPDY connection.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::error::CreateError;
use super::frame::ResetStatus;
use super::state::{Ending, MAX_DATA, Shared};

/// A stream: two directions, each of which ends by itself. Reset if dropped before both have ended.
pub struct Stream {
    shared: Arc<Shared>,
    id: u32,
    headers: HeaderMap,
}

impl Stream {
    pub(super) fn new(shared: &Arc<Shared>, id: u32, headers: HeaderMap) -> Self {
        shared.lock().hold();
        Stream { shared: shared.clone(), id, headers }
    }

    /// Stream ID.
    pub fn identifier(&self) -> u32 {
        self.id
    }

    /// Headers of the stream.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Waits until the peer has accepted the stream.
    pub async fn opened(&self) -> Result<(), CreateError> {
        poll_fn(|context| self.poll_opened(context)).await
    }

    /// Whether the peer has accepted the stream.
    pub fn poll_opened(&self, context: &Context<'_>) -> Poll<Result<(), CreateError>> {
        self.shared.lock().poll_opened(self.id, context)
    }

    /// Received data, at most `limit` bytes; `None` at the end.
    pub fn poll_chunk(&self, limit: usize, context: &Context<'_>) -> Poll<Option<Bytes>> {
        self.shared.lock().poll_read(self.id, limit, context)
    }

    /// Whether data can be sent: the peer has accepted the stream, and the connection has room.
    pub fn poll_ready(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        self.shared.lock().poll_ready(self.id, context)
    }

    /// Sends data of at most one read of another connection; call [`Self::poll_ready`] before.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.shared.lock().send(self.id, bytes)
    }

    /// Ends the own side. The peer may go on sending.
    pub fn finish(&self) {
        self.shared.lock().finish(self.id);
    }

    /// End of the peer's side, if it has ended. Data received before can still be read.
    pub fn ending(&self) -> Option<Ending> {
        self.shared.lock().ending(self.id)
    }

    pub(super) fn reply(&self) {
        self.shared.lock().reply(self.id);
    }

    pub(super) fn refuse(self) {
        self.shared.lock().remove(self.id, ResetStatus::REFUSED_STREAM);
    }

    fn poll_read(&self, context: &Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(bytes) = ready!(self.poll_chunk(buffer.remaining(), context)) {
            buffer.put_slice(&bytes);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.shared.lock();
        ready!(state.poll_ready(self.id, context))?;
        let count = bytes.len().min(MAX_DATA);
        state.send(self.id, &bytes[..count])?;
        Poll::Ready(Ok(count))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.remove(self.id, ResetStatus::CANCEL);
        state.release();
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({})", self.id)
    }
}

macro_rules! byte_stream {
    ($($stream:ty),*) => {$(
        impl AsyncRead for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Stream::poll_read(&self, context, buffer)
            }
        }

        impl AsyncWrite for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                Stream::poll_write(&self, context, bytes)
            }

            /// The driver sends.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.finish();
                Poll::Ready(Ok(()))
            }
        }
    )*};
}

// By reference, so that one task can read while another writes.
byte_stream!(Stream, &Stream);
