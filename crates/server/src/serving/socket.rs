//! A client's socket, below TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::ongoing::Ongoing;

/// A socket that keeps the client's first bytes, and reports transferred bytes.
#[derive(Debug)]
pub(super) struct Socket {
    /// `None` after the socket is given back.
    stream: Option<TcpStream>,
    ongoing: Arc<Ongoing>,
    begin: [u8; 5],
    begun: u8,
}

impl Socket {
    pub fn new(stream: TcpStream, ongoing: Arc<Ongoing>) -> Self {
        Socket { stream: Some(stream), ongoing, begin: [0; 5], begun: 0 }
    }

    /// Whether the client sent plain HTTP instead of TLS.
    pub fn speaks_plain_http(&self) -> bool {
        matches!(&self.begin, b"GET /" | b"HEAD " | b"POST " | b"PUT /" | b"OPTIO")
    }

    /// Responds to a client that sent plain HTTP.
    pub async fn refuse_plain_http(&mut self) -> io::Result<()> {
        let answer = b"HTTP/1.0 400 Bad Request\r\n\r\n\
            Client sent an HTTP request to an HTTPS server.\n";
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.write_all(answer).await?;
        stream.shutdown().await
    }

    /// Acknowledges received bytes at once. The client sends first after the handshake; with Nagle's algorithm its
    /// small writes would wait for the 40 ms of a delayed acknowledgement.
    pub fn acknowledge(&self) {
        if let Some(stream) = &self.stream {
            let _ = SockRef::from(stream).set_tcp_quickack(true);
        }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn remember(&mut self, bytes: &[u8]) {
        let places = self.begin.iter_mut().skip(usize::from(self.begun));
        for (place, byte) in places.zip(bytes) {
            *place = *byte;
            self.begun += 1;
        }
    }
}

/// Gives the socket back to the connection.
impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.ongoing.leave(stream);
        }
    }
}

/// Ends a connection: waits for the client to read all data and to close, at most for `limit`. Closing a socket while
/// the client still sends resets it, and discards data that the client has not read yet.
pub(super) async fn linger(mut stream: TcpStream, limit: Duration) {
    if limit.is_zero() {
        return;
    }
    let listen = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = timeout(limit, listen).await;
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(self.stream()?.poll_read(context, buffer))?;
        let bytes = buffer.filled().get(before..).unwrap_or_default();
        if !bytes.is_empty() {
            if usize::from(self.begun) < self.begin.len() {
                self.remember(bytes);
            }
            self.ongoing.bytes_came();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.speaks_plain_http() {
            // A TLS alert would precede the plain response.
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = ready!(self.stream()?.poll_write(context, bytes));
        self.ongoing.bytes_moved();
        Poll::Ready(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.speaks_plain_http() {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let written = ready!(self.stream()?.poll_write_vectored(context, slices));
        self.ongoing.bytes_moved();
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}
