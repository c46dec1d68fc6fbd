//! Custom dialer for etcd members that are not reached directly (upstream: egress selector for etcd).

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service;

/// A connection to a member, before TLS.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<IO: AsyncRead + AsyncWrite + Send + Unpin> Connection for IO {}

type Dialling = Pin<Box<dyn Future<Output = io::Result<Box<dyn Connection>>> + Send>>;

/// Connects to members by `host:port`.
#[derive(Clone)]
pub struct Dial(Arc<dyn Fn(String) -> Dialling + Send + Sync>);

impl Dial {
    /// Wraps a function that connects to `host:port`.
    pub fn new<F, IO>(dial: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<IO>> + Send + 'static,
        IO: Connection + 'static,
    {
        Dial(Arc::new(move |address| {
            let dialling = dial(address);
            Box::pin(async move { Ok(Box::new(dialling.await?) as Box<dyn Connection>) })
        }))
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Box<dyn Connection>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default);
        let dialling = (self.0)(format!("{}:{port}", uri.host().unwrap_or_default()));
        Box::pin(async move { dialling.await.map(TokioIo::new) })
    }
}
