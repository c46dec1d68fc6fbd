//! The client's side of the translator.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use kevel_clock::timer_now;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::{CLOSING, IDLE, LAST_WORD, Options};
use crate::channel::{self, Demultiplexer, Protocol, Signal};
use crate::chunk::CHUNK;
use crate::rate::{Meter, Rate};
use crate::remote_command::Outcome;
use crate::spdy::Stream;
use crate::websocket::{CloseCode, Received, Role, Socket};

/// A WebSocket with channels.
pub(super) struct Client<C> {
    socket: Socket<C>,
    protocol: Protocol,
    demultiplexer: Demultiplexer,
    stdin: Input,
    resize: Input,
    /// Time of the last data, and timer of the next idle check.
    active: Instant,
    idle: Pin<Box<Sleep>>,
}

/// Input of the client on a channel.
struct Input {
    wanted: bool,
    ended: bool,
    /// Whether the kubelet knows that the client has ended.
    told: bool,
    /// Data that could not be sent to the kubelet yet.
    pending: BytesMut,
    meter: Option<Meter>,
}

impl<C> Client<C> {
    pub fn new(io: C, protocol: Protocol, options: Options, rate: Option<Rate>) -> Self {
        Client {
            socket: Socket::new(io, Role::Server),
            protocol,
            demultiplexer: Demultiplexer::new(protocol),
            stdin: Input::new(options.stdin, rate),
            resize: Input::new(options.tty, None),
            active: timer_now(),
            idle: Box::pin(sleep(IDLE)),
        }
    }

    /// Tells the client that the connection is established: with an empty message on the first output channel.
    pub fn greet(&mut self, options: Options) {
        let channel = match options {
            Options { stdout: true, .. } => channel::STDOUT,
            Options { stderr: true, .. } => channel::STDERR,
            _ => channel::ERROR,
        };
        self.send(channel, &[]);
    }

    /// Sends the command's result.
    pub fn tell(&mut self, outcome: &Outcome) {
        match (self.protocol.status, outcome) {
            (true, outcome) => self.send(channel::ERROR, &outcome.status()),
            (false, Outcome::Success) => {}
            (false, Outcome::Exit(code)) => {
                let message = format!(
                    "command terminated with non-zero exit code: command terminated with exit \
                     code {code}"
                );
                self.send(channel::ERROR, message.as_bytes());
            }
            (false, Outcome::Failure(why)) => {
                self.send(channel::ERROR, format!("Internal error occurred: {why}").as_bytes());
            }
        }
    }

    /// Whether output has to be written before more is sent.
    pub fn is_full(&self) -> bool {
        self.socket.is_full()
    }

    pub fn send(&mut self, channel: u8, bytes: &[u8]) {
        self.protocol.send(&mut self.socket, channel, bytes);
        self.active = timer_now();
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> Client<C> {
    /// Reads and writes. The client's data go to the streams, if those exist and accept them; the client is not read
    /// before. Ready when the client is gone.
    pub fn poll(
        &mut self,
        stdin: Option<&Stream>,
        resize: Option<&Stream>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            if let Poll::Ready(Err(_)) = self.socket.poll_flush(context) {
                return Poll::Ready(());
            }
            let stdin_ready = self.stdin.poll_pending(stdin, context);
            let resize_ready = self.resize.poll_pending(resize, context);
            if self.stdin.is_full() || self.resize.is_full() {
                return self.poll_idle(context);
            }
            let stdin_to = stdin.filter(|_| stdin_ready);
            let resize_to = resize.filter(|_| resize_ready);
            match self.poll_receive(stdin_to, resize_to, context) {
                Poll::Ready(true) => self.active = timer_now(),
                Poll::Ready(false) => return Poll::Ready(()),
                Poll::Pending => {
                    // Reading may have queued a pong or ended a channel.
                    return self.poll_idle(context);
                }
            }
        }
    }

    /// Reads once. Returns whether the client is still connected.
    fn poll_receive(
        &mut self,
        stdin: Option<&Stream>,
        resize: Option<&Stream>,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        let Client { socket, demultiplexer, stdin: to_stdin, resize: to_resize, .. } = self;
        let mut good = true;
        let received = socket.poll_receive(context, CHUNK, |_, bytes, last| {
            let read = demultiplexer.read(bytes, last, |signal| match signal {
                Signal::Data(channel::STDIN, bytes) => to_stdin.take(bytes, stdin),
                Signal::Data(channel::RESIZE, bytes) => to_resize.take(bytes, resize),
                Signal::End(channel::STDIN) => to_stdin.ended = true,
                Signal::End(channel::RESIZE) => to_resize.ended = true,
                // Data on other channels are dropped.
                _ => {}
            });
            good &= read.is_ok();
        });
        let there = matches!(ready!(received), Ok(Ok(Received::Some)));
        Poll::Ready(there && good)
    }

    /// Ready when no data have been moved for too long.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.idle.as_mut().poll(context).is_ready() {
            let end = self.active + IDLE;
            if end <= timer_now() {
                return Poll::Ready(());
            }
            self.idle.as_mut().reset(end);
        }
        Poll::Pending
    }

    /// Closes the connection. Data of the client are discarded until it has received the close frame: dropping a
    /// connection with unread data could lose the last message.
    pub async fn close(mut self) {
        self.socket.close(CloseCode::NORMAL);
        let out = poll_fn(|context| self.socket.poll_shutdown(context));
        if !matches!(timeout(LAST_WORD, out).await, Ok(Ok(()))) {
            return;
        }
        let silence = poll_fn(|context| {
            while let Ok(Ok(Received::Some)) =
                ready!(self.socket.poll_receive(context, CHUNK, |_, _, _| {}))
            {}
            Poll::Ready(())
        });
        let _ = timeout(CLOSING, silence).await;
    }
}

impl Input {
    fn new(wanted: bool, rate: Option<Rate>) -> Self {
        let (pending, meter) = (BytesMut::new(), rate.map(Meter::new));
        Input { wanted, ended: false, told: false, pending, meter }
    }

    /// Whether the client is not read until pending data are sent. A limited amount is read ahead, so that a client
    /// that sends something and disconnects is noticed.
    fn is_full(&self) -> bool {
        self.pending.len() >= CHUNK
    }

    /// Takes data of the client: sends them at once if the stream is ready and no rate limit applies.
    fn take(&mut self, bytes: &[u8], ready: Option<&Stream>) {
        if !self.wanted || self.ended {
            return;
        }
        match ready.filter(|_| self.pending.is_empty() && self.meter.is_none()) {
            Some(stream) => self.wanted = stream.send(bytes).is_ok(),
            None => self.pending.extend_from_slice(bytes),
        }
    }

    /// Sends pending data. Returns whether the stream accepts more.
    fn poll_pending(&mut self, stream: Option<&Stream>, context: &mut Context<'_>) -> bool {
        let Some(stream) = stream else { return false };
        let sent = self.poll_send(stream, context);
        if !self.wanted {
            self.pending = BytesMut::new();
        }
        if self.ended && self.pending.is_empty() && !self.told {
            stream.finish();
            self.told = true;
        }
        sent.is_ready()
    }

    fn poll_send(&mut self, stream: &Stream, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.ended && self.pending.is_empty() {
                return Poll::Ready(());
            }
            if ready!(stream.poll_ready(context)).is_err() {
                // The kubelet has closed the stream.
                self.wanted = false;
                return Poll::Ready(());
            }
            if self.pending.is_empty() {
                self.pending = BytesMut::new();
                return Poll::Ready(());
            }
            let wanted = self.pending.len();
            let count = match &mut self.meter {
                Some(meter) => ready!(meter.poll_allowed(wanted, context)),
                None => wanted,
            };
            self.wanted = stream.send(&self.pending[..count]).is_ok();
            self.pending.advance(count);
            if let Some(meter) = &mut self.meter {
                meter.spend(count);
            }
        }
    }
}
