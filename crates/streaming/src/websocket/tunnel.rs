//! Bytes inside of binary messages.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frame::{CloseCode, Opcode, Violation};
use super::socket::{Received, Socket};
use crate::chunk::CHUNK;

/// A connection of bytes, whose bytes go in a WebSocket's binary messages: where those begin and end
/// means nothing. Shutting it down closes the WebSocket. One task reads and writes it, as reading may
/// answer a ping.
#[derive(Debug)]
pub struct Tunnel<IO> {
    socket: Socket<IO>,
    ended: bool,
}

impl<IO> Tunnel<IO> {
    /// A tunnel inside of a WebSocket.
    pub fn new(socket: Socket<IO>) -> Self {
        Tunnel { socket, ended: false }
    }

    /// What is wrong with how reading went, if anything is.
    fn judge(&mut self, received: Result<Received, Violation>) -> Option<String> {
        match received {
            Ok(Received::Some) => return None,
            Ok(Received::Closed(CloseCode::NORMAL) | Received::Gone) => self.ended = true,
            Ok(Received::Closed(code)) => return Some(format!("websocket: close {}", code.0)),
            Err(violation) => return Some(violation.to_string()),
        }
        None
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tunnel<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        // Until there is something: a frame that is not data is none.
        while !this.ended && buffer.filled().len() == before && buffer.remaining() > 0 {
            let mut texts = false;
            // What is in it is never more than what was read: it fits.
            let received =
                this.socket.poll_receive(context, buffer.remaining(), |text, bytes, _| {
                    texts |= text;
                    buffer.put_slice(bytes);
                });
            let is_pending = received.is_pending();
            let wrong = match received {
                Poll::Pending => None,
                Poll::Ready(_) if texts => Some("invalid message type received".to_owned()),
                Poll::Ready(received) => this.judge(received?),
            };
            if wrong.is_some() {
                this.socket.close(CloseCode::NORMAL);
            }
            // Pongs, or the reason why it ends. What does not go out now does with what is written.
            let _ = this.socket.poll_flush(context)?;
            if let Some(wrong) = wrong {
                return Poll::Ready(Err(io::Error::other(wrong)));
            }
            if is_pending {
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tunnel<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = &mut self.get_mut().socket;
        if socket.is_full() {
            ready!(socket.poll_flush(context))?;
        }
        let count = bytes.len().min(CHUNK);
        socket.send(Opcode::Binary, &[], &bytes[..count]);
        // What does not go out now goes out later.
        let _ = socket.poll_flush(context)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().socket.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = &mut self.get_mut().socket;
        socket.close(CloseCode::NORMAL);
        socket.poll_shutdown(context)
    }
}
