//! Future that reads and writes a SPDY connection.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use kevel_clock::timer_now;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Sleep, sleep};

use super::decoder::Decoder;
use super::error::Error;
use super::state::{Ending, MAX_OUT, MAX_REPLIES, Shared, WINDOW};
use crate::chunk::{CHUNK, poll_chunk};

/// Reads and writes a connection until one of the sides closes it (`Ok`) or it fails. Data move only while it is
/// polled; dropping it closes the connection. After closing, the holder decides how long the peer may take to receive
/// it.
pub struct Driver<IO> {
    io: IO,
    shared: Arc<Shared>,
    decoder: Decoder,
    /// Whether written data may need a flush.
    flush: bool,
    /// Error of a failed write. Data that the peer sent before can still be read.
    unwritable: Option<io::Error>,
    pings: Option<Pings>,
}

struct Pings {
    period: Duration,
    next: Pin<Box<Sleep>>,
}

impl<IO> Driver<IO> {
    pub(super) fn new(io: IO, shared: Arc<Shared>) -> Self {
        let decoder = Decoder::default();
        Driver { io, shared, decoder, flush: false, unwritable: None, pings: None }
    }

    /// Sends pings periodically, so that proxies on the way do not drop an idle connection. As in the reference, a
    /// missing reply has no effect: a stalled peer sends none.
    pub fn with_pings(mut self, period: Duration) -> Self {
        self.pings = Some(Pings { period, next: Box::pin(sleep(period)) });
        self
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Future for Driver<IO> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let ended = ready!(this.poll_through(context));
        this.shared.lock().end(Ending::Lost);
        Poll::Ready(ended)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Driver<IO> {
    fn poll_through(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll_pings(context);
        loop {
            // Before anything else: changes from here on wake the driver again.
            self.shared.lock().driver = Some(context.waker().clone());
            let written = self.poll_write(context);
            let state = self.shared.lock();
            if state.ended.is_some() {
                drop(state);
                if written.is_pending() && !self.poll_deaf(context) {
                    return Poll::Pending;
                }
                // The peer may be gone already.
                let _ = ready!(pin!(&mut self.io).poll_shutdown(context));
                return Poll::Ready(Ok(()));
            }
            if state.unread >= WINDOW || state.replies.len() >= MAX_REPLIES {
                return Poll::Pending;
            }
            drop(state);
            ready!(self.poll_read(context))?;
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Driver { io, shared, decoder, unwritable, .. } = self;
        let read = poll_chunk(io, context, CHUNK, |_, bytes| {
            if bytes.is_empty() {
                return Err(unwritable.take().map_or(Error::Lost, Error::Io));
            }
            let mut bytes: &[u8] = bytes;
            let mut state = shared.lock();
            while let Some(frame) = decoder.next(&mut bytes)? {
                state.apply(frame);
                // Frames after the end are ignored.
                if state.ended.is_some() {
                    break;
                }
            }
            Ok(())
        });
        Poll::Ready(ready!(read)?)
    }

    /// Discards data that the peer sends after the end, so that it can receive the closing frames. Returns whether the
    /// peer is gone.
    fn poll_deaf(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            match poll_chunk(&mut self.io, context, CHUNK, |_, bytes| bytes.is_empty()) {
                Poll::Ready(Ok(false)) => {}
                Poll::Ready(_) => return true,
                Poll::Pending => return false,
            }
        }
    }

    /// Sends pending frames.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.unwritable.is_none() {
            match self.poll_send(context) {
                Poll::Ready(Err(error)) => self.unwritable = Some(error),
                Poll::Ready(Ok(())) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        let mut state = self.shared.lock();
        (state.out, state.replies) = (BytesMut::new(), BytesMut::new());
        if !state.mute {
            state.mute = true;
            state.wake_writers();
        }
        Poll::Ready(())
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared.lock();
        let full = state.out.len() >= MAX_OUT;
        let mut io = Pin::new(&mut self.io);
        let sent = loop {
            state.reply_now();
            if state.out.is_empty() {
                state.out = BytesMut::new();
                break Poll::Ready(Ok(()));
            }
            match io.as_mut().poll_write(context, &state.out) {
                Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    state.out.advance(count);
                    self.flush = true;
                }
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        if full && state.out.len() < MAX_OUT {
            state.wake_writers();
        }
        drop(state);
        ready!(sent)?;
        if self.flush {
            ready!(io.poll_flush(context))?;
            self.flush = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_pings(&mut self, context: &mut Context<'_>) {
        let Some(pings) = &mut self.pings else { return };
        while pings.next.as_mut().poll(context).is_ready() {
            pings.next.as_mut().reset(timer_now() + pings.period);
            self.shared.lock().send_ping();
        }
    }
}

impl<IO> Drop for Driver<IO> {
    fn drop(&mut self) {
        self.shared.lock().end(Ending::Lost);
    }
}

impl<IO> std::fmt::Debug for Driver<IO> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("spdy::Driver")
    }
}
