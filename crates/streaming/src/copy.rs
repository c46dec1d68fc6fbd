//! Bidirectional copying between two connections.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use kevel_clock::timer_now;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Sleep, sleep};

use crate::chunk::{CHUNK, poll_chunk};
use crate::rate::{Meter, Rate};

/// Maximum silence of one side after the other has ended its direction. Most peers end at once; one that does not even
/// notice must not be kept for ever.
pub const HALF_CLOSED: Duration = Duration::from_secs(60);

/// Numbers of copied bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// From the client to the backend.
    pub to_backend: u64,
    /// From the backend to the client.
    pub to_client: u64,
}

/// Copies in both directions until both sides have ended, or either fails. The end of one side is passed to the other,
/// which may go on ([`HALF_CLOSED`]). An idle connection holds no buffer; data that one side does not accept are held
/// once (32 KiB), and the other side is not read meanwhile.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use kevel_streaming::copy::copy_bidirectional;
/// use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
/// let (mut client, near) = tokio::io::duplex(64);
/// let (far, mut backend) = tokio::io::duplex(64);
/// let copied = tokio::spawn(copy_bidirectional(near, far, None));
/// client.write_all(b"hello").await.unwrap();
/// client.shutdown().await.unwrap();
/// let mut heard = String::new();
/// backend.read_to_string(&mut heard).await.unwrap();
/// assert_eq!(heard, "hello");
/// backend.write_all(b"and bye").await.unwrap();
/// drop(backend);
/// client.read_to_string(&mut heard).await.unwrap();
/// assert_eq!(heard, "helloand bye");
/// let copied = copied.await.unwrap().unwrap();
/// assert_eq!((copied.to_backend, copied.to_client), (5, 7));
/// # });
/// ```
pub fn copy_bidirectional<A, B>(
    client: A,
    backend: B,
    rate: Option<Rate>,
) -> CopyBidirectional<A, B>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (to_backend, to_client) = (Pump::new(rate), Pump::new(rate));
    CopyBidirectional { client, backend, to_backend, to_client, silence: None }
}

/// Future of [`copy_bidirectional`].
#[derive(Debug)]
#[must_use = "nothing goes unless it is polled"]
pub struct CopyBidirectional<A, B> {
    client: A,
    backend: B,
    to_backend: Pump,
    to_client: Pump,
    silence: Option<Silence>,
}

/// Time since the last data of the side that has not ended.
#[derive(Debug)]
struct Silence {
    moved: u64,
    end: Pin<Box<Sleep>>,
}

impl<A, B> Future for CopyBidirectional<A, B>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    type Output = io::Result<Copied>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let to_backend = this.to_backend.poll(&mut this.client, &mut this.backend, context)?;
        let to_client = this.to_client.poll(&mut this.backend, &mut this.client, context)?;
        let copied = Copied { to_backend: this.to_backend.moved, to_client: this.to_client.moved };
        match (to_backend, to_client) {
            (Poll::Ready(()), Poll::Ready(())) => Poll::Ready(Ok(copied)),
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            _ => {
                ready!(this.poll_silence(copied.to_backend + copied.to_client, context));
                Poll::Ready(Ok(copied))
            }
        }
    }
}

impl<A, B> CopyBidirectional<A, B> {
    fn poll_silence(&mut self, moved: u64, context: &mut Context<'_>) -> Poll<()> {
        let begin = || Silence { moved, end: Box::pin(sleep(HALF_CLOSED)) };
        let silence = self.silence.get_or_insert_with(begin);
        while silence.end.as_mut().poll(context).is_ready() {
            if silence.moved == moved {
                return Poll::Ready(());
            }
            silence.moved = moved;
            silence.end.as_mut().reset(timer_now() + HALF_CLOSED);
        }
        Poll::Pending
    }
}

/// One direction.
#[derive(Debug)]
struct Pump {
    /// Data that were read and not yet written, from `at` on.
    rest: Vec<u8>,
    at: usize,
    state: State,
    /// Whether written data may need a flush.
    flush: bool,
    meter: Option<Meter>,
    moved: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Copying,
    Ending,
    Ended,
}

impl Pump {
    fn new(rate: Option<Rate>) -> Self {
        let (rest, state, meter) = (Vec::new(), State::Copying, rate.map(Meter::new));
        Pump { rest, at: 0, state, flush: false, meter, moved: 0 }
    }

    fn poll<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        &mut self,
        from: &mut R,
        to: &mut W,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.state == State::Copying {
            ready!(self.poll_rest(to, context))?;
            let wanted = match &mut self.meter {
                Some(meter) => meter.poll_allowed(CHUNK, context),
                None => Poll::Ready(CHUNK),
            };
            let moved = match wanted {
                Poll::Ready(wanted) => self.poll_move(from, to, wanted, context)?,
                Poll::Pending => Poll::Pending,
            };
            if moved.is_pending() {
                if self.flush {
                    ready!(Pin::new(to).poll_flush(context))?;
                    self.flush = false;
                }
                return Poll::Pending;
            }
        }
        if self.state == State::Ending {
            // An error means that the peer is gone, which has the same effect.
            let _ = ready!(Pin::new(to).poll_shutdown(context));
            self.state = State::Ended;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes data that were not accepted before, and frees the buffer.
    fn poll_rest<W: AsyncWrite + Unpin>(
        &mut self,
        to: &mut W,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.at < self.rest.len() {
            let written = ready!(Pin::new(&mut *to).poll_write(context, &self.rest[self.at..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.at += written;
        }
        (self.rest, self.at) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    /// Reads once and writes as much as is accepted.
    fn poll_move<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        &mut self,
        from: &mut R,
        to: &mut W,
        wanted: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let moved = poll_chunk(from, context, wanted, |context, bytes| {
            if bytes.is_empty() {
                self.state = State::Ending;
                return Ok(());
            }
            self.moved += bytes.len() as u64;
            self.flush = true;
            if let Some(meter) = &mut self.meter {
                meter.spend(bytes.len());
            }
            let written = match Pin::new(to).poll_write(context, bytes) {
                Poll::Ready(written) => written?,
                Poll::Pending => 0,
            };
            self.rest.extend_from_slice(&bytes[written..]);
            Ok(())
        });
        Poll::Ready(ready!(moved)?)
    }
}
