//! Where connections lead: to the host of a URL, or to where a service is now.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::{Authority, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::failure;

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(30);

/// Where a service is now: host and port. It is asked for every connection.
pub type Dial = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    dial: Option<Dial>,
}

impl Connector {
    pub fn new(dial: Option<Dial>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        Connector { tcp, dial }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        self.tcp.poll_ready(context).map_err(|error| DialError(error.to_string()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let uri = match &self.dial {
            None => Ok(uri),
            Some(dial) => dial().and_then(|authority| at(uri, &authority)),
        };
        let tcp = uri.map(|uri| (address(&uri), self.tcp.call(uri)));
        Box::pin(async move {
            let (address, tcp) = tcp.map_err(DialError)?;
            tcp.await.map_err(|error| DialError(failed(&error, &address)))
        })
    }
}

/// The same URL elsewhere.
fn at(uri: Uri, authority: &str) -> Result<Uri, String> {
    let mut parts = uri.into_parts();
    let invalid = |error: &dyn fmt::Display| format!("invalid address {authority:?}: {error}");
    let elsewhere: Authority = authority.parse().map_err(|error| invalid(&error))?;
    parts.authority = Some(elsewhere);
    Uri::from_parts(parts).map_err(|error| invalid(&error))
}

/// Host and port, as errors name them.
fn address(uri: &Uri) -> String {
    let port = match (uri.port_u16(), uri.scheme_str()) {
        (Some(port), _) => port,
        (None, Some("http")) => 80,
        (None, _) => 443,
    };
    format!("{}:{port}", uri.host().unwrap_or_default())
}

fn failed(error: &(dyn std::error::Error + 'static), address: &str) -> String {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    let cause = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let is_ip = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    match cause {
        // What a name server says has a kind that nobody can name.
        Some(cause) if !is_ip && cause.raw_os_error().is_none() && cause.get_ref().is_some() => {
            match cause.kind() {
                io::ErrorKind::TimedOut => failure::of_connection(cause, address),
                _ => format!("dial tcp: lookup {host}: no such host"),
            }
        }
        Some(cause) => failure::of_connection(cause, address),
        None => format!("dial tcp {address}: {error}"),
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) struct DialError(String);

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DialError {}
