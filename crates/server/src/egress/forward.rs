//! HTTP proxies of clients (`proxy-url` of a kubeconfig file).

use std::sync::Arc;

use http::Uri;
use hyper_util::rt::TokioIo;
use kevel_kubeconfig::ProxyUrl;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::connector::Connector;
use super::dialer::{DialError, Dialer};
use super::stream::{Connection, Stream};
use super::{failure, http_connect};

/// A proxy that is asked to connect (HTTP CONNECT). It is itself reached by the dialer of the client.
#[derive(Clone, Debug)]
pub struct ForwardProxy {
    url: ProxyUrl,
    tls: Arc<ClientConfig>,
}

impl ForwardProxy {
    /// A proxy, verified by a configuration of TLS if it is spoken to with TLS.
    pub fn new(url: ProxyUrl, mut tls: ClientConfig) -> Self {
        tls.alpn_protocols.clear();
        ForwardProxy { url, tls: Arc::new(tls) }
    }

    /// Connects to an address through the proxy.
    pub(super) fn dial(
        self,
        dialer: Dialer,
        target: String,
    ) -> <Connector as Service<Uri>>::Future {
        Box::pin(async move {
            let ProxyUrl { address, tls_name, authorization } = &self.url;
            let near = dialer.dial(address).await.map_err(|error| failed(&error.0))?;
            let near: Box<dyn Connection> = match tls_name {
                None => Box::new(near),
                Some(name) => {
                    let name = ServerName::try_from(name.clone());
                    let name = name.map_err(|error| failed(&error.to_string()))?;
                    let tls = TlsConnector::from(self.tls.clone()).connect(name, near).await;
                    let broken = |error| failed(&failure::of_connection(&error, address));
                    Box::new(tls.map_err(broken)?)
                }
            };
            let headers = format!("Host: {target}\r\n{authorization}");
            let connected = http_connect::connect(near, address, &target, &headers).await;
            let connected = connected.map_err(|error| failed(&error))?;
            Ok(TokioIo::new(Stream::Proxied(connected)))
        })
    }
}

/// The error of a connection to a proxy, in the words of Go's client.
fn failed(error: &str) -> DialError {
    DialError(format!("proxyconnect tcp: {error}"))
}
