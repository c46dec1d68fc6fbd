//! Connection of any dialer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{self, Connected};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection, with TLS or without.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<IO: AsyncRead + AsyncWrite + Send + Unpin> Connection for IO {}

/// A connection that a [`Dialer`](super::Dialer) has made. Direct ones are not boxed.
pub enum Stream {
    /// A direct one.
    Tcp(TcpStream),
    /// Connection through a proxy.
    Proxied(Box<dyn Connection>),
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stream::Tcp(_) => "Tcp",
            Stream::Proxied(_) => "Proxied",
        })
    }
}

impl Stream {
    fn io(self: Pin<&mut Self>) -> Pin<&mut dyn Connection> {
        match self.get_mut() {
            Stream::Tcp(tcp) => Pin::new(tcp),
            Stream::Proxied(proxied) => Pin::new(proxied),
        }
    }
}

impl connect::Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io().poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io().poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Tcp(tcp) => tcp.is_write_vectored(),
            Stream::Proxied(proxied) => proxied.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(context)
    }
}
