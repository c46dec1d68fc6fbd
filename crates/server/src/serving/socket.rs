//! A client's socket, below TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

use super::ongoing::Ongoing;

/// A socket that remembers how the client began, and says when bytes come.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    ongoing: Arc<Ongoing>,
    begin: [u8; 5],
    begun: u8,
}

impl Socket {
    pub fn new(stream: TcpStream, ongoing: Arc<Ongoing>) -> Self {
        Socket { stream, ongoing, begin: [0; 5], begun: 0 }
    }

    /// Whether the client speaks HTTP where it should speak TLS.
    pub fn speaks_plain_http(&self) -> bool {
        matches!(&self.begin, b"GET /" | b"HEAD " | b"POST " | b"PUT /" | b"OPTIO")
    }

    /// Tells a client that speaks plain HTTP what is wrong.
    pub async fn refuse_plain_http(&mut self) -> io::Result<()> {
        let answer = b"HTTP/1.0 400 Bad Request\r\n\r\n\
            Client sent an HTTP request to an HTTPS server.\n";
        self.stream.write_all(answer).await?;
        self.stream.shutdown().await
    }

    /// Acknowledges what came. The client speaks first after the handshake; one whose small writes
    /// wait for each other (Nagle) would have to wait for the 40 ms of a delayed acknowledgement.
    pub fn acknowledge(&self) {
        let _ = SockRef::from(&self.stream).set_tcp_quickack(true);
    }

    fn remember(&mut self, bytes: &[u8]) {
        let places = self.begin.iter_mut().skip(usize::from(self.begun));
        for (place, byte) in places.zip(bytes) {
            *place = *byte;
            self.begun += 1;
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
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
            // A TLS alert would stand before the answer that the client understands.
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.speaks_plain_http() {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
