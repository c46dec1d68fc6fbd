//! A dialer for HTTP clients that keep connections.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::uri::{Authority, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tower_service::Service;

use super::dialer::{DIAL_TIMEOUT, DialError, Dialer};
use super::failure;
use super::forward::ForwardProxy;
use super::stream::Stream;

/// Resolver of a Service's present host and port. It is called for every connection.
pub type Resolve = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Makes the connections of an HTTP client: to the host of a URL, or to where a service is now.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector,
    dialer: Dialer,
    resolve: Option<Resolve>,
    proxy: Option<ForwardProxy>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("dialer", &self.dialer).finish_non_exhaustive()
    }
}

impl Connector {
    /// Connects to hosts by a dialer.
    pub fn new(dialer: Dialer) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(DIAL_TIMEOUT));
        Connector { tcp, dialer, resolve: None, proxy: None }
    }

    /// Connects to where a service is instead.
    pub fn resolving(self, resolve: Option<Resolve>) -> Self {
        Connector { resolve, ..self }
    }
}

impl Connector {
    /// Connects through a proxy.
    pub fn through(self, proxy: ForwardProxy) -> Self {
        Connector { proxy: Some(proxy), ..self }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        self.tcp.poll_ready(context).map_err(|error| DialError(error.to_string()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let uri = match &self.resolve {
            None => Ok(uri),
            Some(resolve) => resolve().and_then(|authority| at(uri, &authority)),
        };
        let uri = match uri {
            Ok(uri) => uri,
            Err(error) => return Box::pin(std::future::ready(Err(DialError(error)))),
        };
        let address = address(&uri);
        if let Some(proxy) = self.proxy.clone() {
            return proxy.dial(self.dialer.clone(), address);
        }
        if self.dialer.is_direct() {
            let tcp = self.tcp.call(uri);
            return Box::pin(async move {
                let tcp = tcp.await.map_err(|error| DialError(failure::of_dial(&error, &address)));
                Ok(TokioIo::new(Stream::Tcp(tcp?.into_inner())))
            });
        }
        let dialer = self.dialer.clone();
        Box::pin(async move { dialer.dial(&address).await.map(TokioIo::new) })
    }
}

/// Copy of a URL with another authority.
fn at(uri: Uri, authority: &str) -> Result<Uri, String> {
    let mut parts = uri.into_parts();
    let invalid = |error: &dyn std::fmt::Display| format!("invalid address {authority:?}: {error}");
    let elsewhere: Authority = authority.parse().map_err(|error| invalid(&error))?;
    parts.authority = Some(elsewhere);
    Uri::from_parts(parts).map_err(|error| invalid(&error))
}

/// Host and port of a URL, to be dialled.
pub fn address(uri: &Uri) -> String {
    let port = match (uri.port_u16(), uri.scheme_str()) {
        (Some(port), _) => port,
        (None, Some("http")) => 80,
        (None, _) => 443,
    };
    format!("{}:{port}", uri.host().unwrap_or_default())
}
