//! Byte stream in binary WebSocket messages.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frame::{CloseCode, Opcode, Violation};
use super::socket::{Received, Socket};
use crate::chunk::CHUNK;

/// A byte stream in a WebSocket's binary messages, whose boundaries have no meaning. Shutting it down closes the
/// WebSocket. One task must read and write it, as reading may send a pong.
#[derive(Debug)]
pub struct Tunnel<IO> {
    socket: Socket<IO>,
    ended: bool,
}

impl<IO> Tunnel<IO> {
    /// A tunnel in a WebSocket.
    pub fn new(socket: Socket<IO>) -> Self {
        Tunnel { socket, ended: false }
    }

    /// Error of a read, if it is one.
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
        // Until there are data: control frames have none.
        while !this.ended && buffer.filled().len() == before && buffer.remaining() > 0 {
            let mut texts = false;
            // Decoded data are never longer than the bytes read: they fit.
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
            // Pongs, or the close frame. Bytes that are not written now are written with later data.
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
        // Bytes that are not written now are written later.
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
