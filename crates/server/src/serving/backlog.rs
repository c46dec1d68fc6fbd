//! Backlog of an HTTP/1.1 connection. hyper takes up to sixteen pieces of a body even if the client does not read; with
//! the backlog it gets the next piece when the last one is sent.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::body::PIECE;

/// Bytes of bodies that are not sent yet. Used by the connection's task only.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: AtomicUsize,
    /// Waker of the body that waits for room.
    next: Mutex<Option<Waker>>,
}

impl Backlog {
    /// Whether the backlog is full. The caller is woken when it no longer is.
    pub fn is_full(&self, context: &Context<'_>) -> bool {
        let full = self.waiting.load(Ordering::Acquire) >= PIECE;
        if full {
            *self.lock() = Some(context.waker().clone());
        }
        full
    }

    /// Adds bytes to be sent.
    pub fn given(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Removes sent bytes, some of which may be heads and chunk sizes.
    fn sent(&self, bytes: usize) {
        let less = |waiting: usize| Some(waiting.saturating_sub(bytes));
        let _ = self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        if self.waiting.load(Ordering::Acquire) < PIECE {
            self.lock().take().into_iter().for_each(Waker::wake);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that counts its output.
pub(super) struct Counted<S> {
    pub stream: S,
    pub backlog: Arc<Backlog>,
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.backlog.sent(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
        self.backlog.sent(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes when it has written everything.
        self.backlog.sent(usize::MAX);
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}
