//! A WebSocket connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use super::decoder::{Decoder, Event};
use super::frame::{CloseCode, Opcode, Role, Violation, write_frame, write_masked};
use crate::chunk::{CHUNK, poll_chunk};

/// Maximum bytes that wait to be sent, plus one message.
const MAX_OUT: usize = 64 << 10;
/// Maximum bytes of waiting pongs, plus those for one more read: with more nothing is read. Messages do not count, or
/// two sides that both send much could block each other.
const MAX_PONGS: usize = 16 << 10;

/// A WebSocket connection. Answers pings; its holder closes it.
pub struct Socket<IO> {
    io: IO,
    role: Role,
    decoder: Decoder,
    out: BytesMut,
    /// Pongs, which are sent when there is room.
    pongs: BytesMut,
    /// Whether written data may need a flush.
    flush: bool,
    closed: bool,
    mask: u32,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The connection continues.
    Some,
    /// The peer has sent a close frame with this code.
    Closed(CloseCode),
    /// The connection ended without a close frame.
    Gone,
}

impl<IO> Socket<IO> {
    /// Wraps a connection whose handshake is done.
    pub fn new(io: IO, role: Role) -> Self {
        Socket {
            io,
            role,
            decoder: Decoder::new(role),
            out: BytesMut::new(),
            pongs: BytesMut::new(),
            flush: false,
            closed: false,
            mask: 0,
        }
    }

    /// Whether output has to be written before more is sent.
    pub fn is_full(&self) -> bool {
        self.out.len() >= MAX_OUT
    }

    /// Queues a message of two parts. [`Self::poll_flush`] writes it. Dropped after closing.
    pub fn send(&mut self, opcode: Opcode, before: &[u8], payload: &[u8]) {
        if !self.closed {
            let mut out = std::mem::take(&mut self.out);
            self.write(opcode, before, payload, &mut out);
            self.out = out;
        }
    }

    fn write(&mut self, opcode: Opcode, before: &[u8], payload: &[u8], out: &mut BytesMut) {
        match self.role {
            Role::Server => write_frame(opcode, before, payload, out),
            Role::Client => {
                // Masks keep scripts in browsers from writing bytes of their choice; there are none here.
                self.mask = self.mask.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
                write_masked(opcode, self.mask.to_be_bytes(), before, payload, out);
            }
        }
    }

    /// Queues bytes that need not be a frame, for tests.
    #[cfg(feature = "testing")]
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Queues a close frame.
    pub fn close(&mut self, code: CloseCode) {
        if self.closed {
            return;
        }
        // Nothing may follow a close frame.
        self.out.unsplit(std::mem::take(&mut self.pongs));
        self.send(Opcode::Close, &code.0.to_be_bytes(), &[]);
        self.closed = true;
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Socket<IO> {
    /// Reads once, at most `limit` bytes, and passes the data to `each`. On a violation a close frame is queued.
    pub fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        limit: usize,
        mut each: impl FnMut(bool, &[u8], bool),
    ) -> Poll<io::Result<Result<Received, Violation>>> {
        if self.pongs.len() >= MAX_PONGS {
            ready!(self.poll_flush(context))?;
        }
        let Socket { io, decoder, .. } = self;
        let mut pings = Vec::new();
        let received = poll_chunk(io, context, limit.min(CHUNK), |_, mut bytes| {
            if bytes.is_empty() {
                return Ok(Received::Gone);
            }
            while let Some(event) = decoder.next(&mut bytes)? {
                match event {
                    Event::Data { text, bytes, last } => each(text, bytes, last),
                    Event::Ping(payload) => pings.push(payload),
                    Event::Pong => {}
                    Event::Close(code) => return Ok(Received::Closed(code)),
                }
            }
            Ok(Received::Some)
        });
        let received: Result<Received, Violation> = ready!(received)?;
        if !pings.is_empty() && !self.closed {
            let mut pongs = std::mem::take(&mut self.pongs);
            pings.iter().for_each(|ping| self.write(Opcode::Pong, ping, &[], &mut pongs));
            self.pongs = pongs;
        }
        if let Err(violation) = received {
            self.close(violation.code);
        }
        Poll::Ready(Ok(received))
    }

    /// Writes queued frames.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut io = Pin::new(&mut self.io);
        loop {
            if !self.pongs.is_empty() && self.out.len() < MAX_OUT {
                self.out.unsplit(std::mem::take(&mut self.pongs));
            }
            if self.out.is_empty() {
                break;
            }
            let count = ready!(io.as_mut().poll_write(context, &self.out))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(count);
            self.flush = true;
        }
        self.out = BytesMut::new();
        if self.flush {
            ready!(io.poll_flush(context))?;
            self.flush = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes queued frames, and shuts down the sending side.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(context))?;
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl<IO> std::fmt::Debug for Socket<IO> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("websocket::Socket")
    }
}
