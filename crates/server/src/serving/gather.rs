//! Gathering of a connection's small writes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Transport;
use crate::body::HEADROOM;

/// Size from which a write is not gathered.
const LARGE: usize = 8 << 10;
/// Most bytes gathered: a few TLS records, one write to the socket.
const MOST: usize = 64 << 10;
/// The most that is read in one turn of the connection's task: one or two milliseconds of decryption and header
/// decompression. A client that sends without a pause would keep the worker otherwise.
const MOST_READ: usize = 256 << 10;

/// A stream that keeps small writes back until [`poll_send`](Self::poll_send): HTTP/2 flushes after each frame, and a
/// TLS record and a system call for each is most of a frame's cost. The writer must call `poll_send` before it waits.
#[derive(Clone)]
pub(super) struct Gather(Arc<Mutex<Output>>);

struct Output {
    stream: Box<dyn Transport>,
    kept: BytesMut,
    /// Bytes written in this turn of the task.
    written: usize,
    /// Bytes that may still be read in this turn of the task.
    readable: usize,
}

impl Gather {
    pub fn new(stream: Box<dyn Transport>) -> Self {
        let (kept, readable) = (BytesMut::new(), MOST_READ);
        Gather(Arc::new(Mutex::new(Output { stream, kept, written: 0, readable })))
    }

    /// Sends all gathered writes.
    pub fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut output = self.lock();
        ready!(output.poll_pass_on(context))?;
        Pin::new(&mut output.stream).poll_flush(context)
    }

    /// Begins a turn of the connection's task: forgets how much the last one has read and written.
    pub fn begin_turn(&self) {
        let mut output = self.lock();
        (output.written, output.readable) = (0, MOST_READ);
    }

    /// Bytes written since the last call, or since the turn began.
    pub fn take_written(&self) -> usize {
        std::mem::take(&mut self.lock().written)
    }

    /// Only the connection's task takes the lock.
    fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output {
    /// Writes the gathered bytes to the stream.
    fn poll_pass_on(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.kept.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.kept))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.kept.advance(written);
        }
        // An idle connection keeps no buffer.
        self.kept = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Gather {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut output = self.lock();
        let size = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if size >= LARGE || output.kept.len() + size > MOST {
            ready!(output.poll_pass_on(context))?;
        }
        if size >= LARGE {
            let written = ready!(Pin::new(&mut output.stream).poll_write_vectored(context, slices));
            output.written += written.as_ref().copied().unwrap_or(0);
            return Poll::Ready(written);
        }
        output.written += size;
        if output.kept.is_empty() {
            output.kept.reserve(HEADROOM + size);
            output.kept.put_bytes(0, HEADROOM);
            output.kept.advance(HEADROOM);
        }
        output.kept.reserve(size);
        slices.iter().for_each(|slice| output.kept.extend_from_slice(slice));
        Poll::Ready(Ok(size))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut output = self.lock();
        match output.kept.is_empty() {
            true => Pin::new(&mut output.stream).poll_flush(context),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut output = self.lock();
        ready!(output.poll_pass_on(context))?;
        Pin::new(&mut output.stream).poll_shutdown(context)
    }
}

impl AsyncRead for Gather {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut output = self.lock();
        if output.readable == 0 {
            // Goes on in the next turn.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut output.stream).poll_read(context, buffer);
        output.readable = output.readable.saturating_sub(buffer.filled().len() - before);
        read
    }
}
