//! What an HTTP/1.1 connection was given to send and has not sent yet. hyper takes a body's pieces until it
//! has sixteen of them, whether the client reads or not; here it gets the next one when the last is out.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::body::PIECE;

/// How many bytes of bodies wait. Only the connection's task looks at it.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: AtomicUsize,
    /// The writer that waits, when there is too much.
    next: Mutex<Option<Waker>>,
}

impl Backlog {
    /// Whether there is too much to take more. The caller is woken when there is not.
    pub fn is_full(&self, context: &Context<'_>) -> bool {
        let full = self.waiting.load(Ordering::Acquire) >= PIECE;
        if full {
            *self.lock() = Some(context.waker().clone());
        }
        full
    }

    /// So many bytes are to be sent.
    pub fn given(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::AcqRel);
    }

    /// So many bytes were sent, some of which may have been heads and the like.
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

/// A stream whose output is counted.
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
