//! HTTP client with direct access to the connection.

use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1
    Http1,
    /// HTTP/2
    Http2,
}

/// A connection.
#[derive(Debug)]
pub enum Client {
    /// One request at a time.
    Http1(http1::SendRequest<Full<Bytes>>),
    /// Concurrent requests.
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    /// Connects to a local port.
    pub async fn connect(port: u16, tls: &ClientConfig, version: Version) -> std::io::Result<Self> {
        let stream = TokioIo::new(connect(port, tls, version).await?);
        let other = std::io::Error::other;
        Ok(match version {
            Version::Http1 => {
                let (sender, connection) = http1::handshake(stream).await.map_err(other)?;
                tokio::spawn(connection.with_upgrades());
                Client::Http1(sender)
            }
            Version::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                // Large enough for a whole list at once.
                builder.initial_stream_window_size(4 << 20).initial_connection_window_size(8 << 20);
                let (sender, connection) = builder.handshake(stream).await.map_err(other)?;
                tokio::spawn(connection);
                Client::Http2(sender)
            }
        })
    }

    /// Sends a request once the connection is ready for it.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        match self {
            Client::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Client::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    /// Sends GET.
    pub async fn get(&mut self, path: &str) -> hyper::Result<Response<Incoming>> {
        self.send(request(Method::GET, path, "")).await
    }

    /// Posts JSON.
    pub async fn post(
        &mut self,
        path: &str,
        body: impl Into<Bytes>,
    ) -> hyper::Result<Response<Incoming>> {
        self.send(request(Method::POST, path, body)).await
    }
}

/// Opens a TLS connection.
pub async fn connect(
    port: u16,
    tls: &ClientConfig,
    version: Version,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut tls = tls.clone();
    tls.alpn_protocols = match version {
        Version::Http1 => vec![b"http/1.1".to_vec()],
        Version::Http2 => vec![b"h2".to_vec()],
    };
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("localhost").map_err(std::io::Error::other)?;
    TlsConnector::from(Arc::new(tls)).connect(name, stream).await
}

/// Request with a JSON body.
pub fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

/// Reads the whole body.
pub async fn read(response: Response<Incoming>) -> hyper::Result<Bytes> {
    Ok(response.into_body().collect().await?.to_bytes())
}

/// ConfigMap of about `size` bytes.
pub fn config_map(name: &str, size: usize) -> String {
    let value = "x".repeat(size);
    format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"value":"{value}"}}}}"#)
}
