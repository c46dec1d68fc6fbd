//! Proxying of requests to nodes, pods and services (upstream: k8s.io/apimachinery's `util/proxy`): with upgrades
//! ([`UpgradeAwareProxy`]), translated from WebSockets ([`stream_translator`]) or tunneled through them
//! ([`stream_tunnel`]).

pub mod headers;
mod html;
mod location;
mod rewrite;
pub mod stream_translator;
pub mod stream_tunnel;
mod transport;
mod upgrade;

pub use location::{Location, join_host_port, join_preserving_trailing_slash};
pub use transport::{Outgoing, Transport, TransportConfig};
pub use upgrade::{Upgraded, go_on, refused, switch_protocols};

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use kevel_api::status::StatusError;
use kevel_streaming::rate::Rate;
use kevel_streaming::upgrade::is_upgrade_request;

use crate::body::{Body, Broken, Piece, Pieces};
use crate::handler::Response;
use crate::request::{Request, RequestBody, json_text};
use kevel_registry::query::escape_path;
use rewrite::Rewriter;

/// Proxies a request to a location (upstream: `UpgradeAwareHandler`).
#[derive(Debug)]
pub struct UpgradeAwareProxy<'a> {
    /// Target of the request.
    pub location: Location,
    /// Transport to the target.
    pub transport: &'a Transport,
    /// Whether only upgrade requests are proxied. If not, it is the proxy subresource, which sends `X-Forwarded-*`
    /// headers and rewrites links in responses.
    pub upgrade_required: bool,
    /// Bandwidth limit of an upgraded connection.
    pub rate: Option<Rate>,
}

impl UpgradeAwareProxy<'_> {
    /// Proxies a request, and returns the response.
    pub async fn serve(self, request: Request) -> Result<Response, StatusError> {
        if is_upgrade_request(&request.parts.headers) {
            return self.upgrade(request).await;
        }
        match self.upgrade_required {
            true => Err(StatusError::bad_request("Upgrade request required")),
            false => self.exchange(request).await,
        }
    }

    async fn upgrade(self, request: Request) -> Result<Response, StatusError> {
        let headers = headers::outgoing_upgrade(&request);
        let asked = self.location.uri().map_err(unknown)?;
        let mut outgoing = http::Request::new(());
        *outgoing.method_mut() = request.parts.method.clone();
        *outgoing.uri_mut() = asked;
        *outgoing.headers_mut() = headers;
        let rate = self.rate;
        match upgrade::ask(self.transport, &outgoing).await? {
            Upgraded::Refused(response) => Ok(response),
            Upgraded::Switched(parts, backend) => Ok(go_on(parts, move |client| {
                kevel_streaming::copy::copy_bidirectional(client, backend, rate)
            })),
        }
    }

    async fn exchange(mut self, request: Request) -> Result<Response, StatusError> {
        let asked = request.info.path.clone();
        let below = self.location.path.clone();
        if asked.ends_with('/') && !self.location.path.ends_with('/') {
            self.location.path.push('/');
        }
        if self.location.path.is_empty() && headers::is_read(&request.parts.method) {
            return moved_to_root(&request);
        }
        self.location.query = request.query().to_owned();
        let uri = self.location.uri().map_err(unknown)?;
        let rewriter = Rewriter::new(&asked, &below, &uri, headers::host(&request));
        let mut outgoing_headers = headers::outgoing(&request);
        if let Ok(value) = HeaderValue::from_str(&rewriter.forwarded_uri(uri.path())) {
            outgoing_headers.insert("x-forwarded-uri", value);
        }
        let mut outgoing = http::Request::new(body_of(request.body));
        *outgoing.method_mut() = request.parts.method;
        *outgoing.uri_mut() = uri;
        *outgoing.headers_mut() = outgoing_headers;
        let answer = self.transport.send(outgoing).await.map_err(|why| {
            StatusError::service_unavailable(format!("error trying to reach service: {why}"))
        })?;
        if answer.status().is_informational() {
            return Err(unknown("backend tried to switch protocol when none was requested"));
        }
        let (mut parts, body) = answer.into_parts();
        headers::incoming(&mut parts.headers);
        let body = rewriter.answer(&mut parts, Body::pieces(Passed::from(body)))?;
        Ok(http::Response::from_parts(parts, body))
    }
}

/// Redirects to the proxy's root with a trailing slash, without which relative links would not work.
fn moved_to_root(request: &Request) -> Result<Response, StatusError> {
    let query = match request.query() {
        "" => String::new(),
        query => format!("?{query}"),
    };
    let to = format!("{}/{query}", escape_path(&request.info.path));
    let mut response = http::Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&to).map_err(unknown)?);
    Ok(response)
}

fn body_of(body: RequestBody) -> Outgoing {
    match body {
        RequestBody::Incoming(body) => Either::Left(body),
        RequestBody::Bytes(bytes) => Either::Right(Full::new(bytes)),
        RequestBody::Object(tree) => Either::Right(Full::new(json_text(&tree))),
    }
}

/// A failure without a reason of its own.
pub fn unknown(error: impl std::fmt::Display) -> StatusError {
    StatusError::unknown(500, error)
}

/// Body of a proxied response.
#[derive(Debug)]
pub struct Passed {
    body: Incoming,
    trailers: Option<HeaderMap>,
}

impl From<Incoming> for Passed {
    fn from(body: Incoming) -> Self {
        Passed { body, trailers: None }
    }
}

impl Pieces for Passed {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        loop {
            let frame = ready!(http_body::Body::poll_frame(Pin::new(&mut self.body), context));
            return Poll::Ready(match frame {
                None => None,
                Some(Err(_)) => Some(Err(Broken("the server behind this one broke off"))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    Err(last) => {
                        self.trailers = last.into_trailers().ok();
                        continue;
                    }
                },
            });
        }
    }

    fn trailers(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Option<HeaderMap> {
        let mut trailers = self.trailers.take()?;
        headers::incoming(&mut trailers);
        Some(trailers)
    }

    fn at_least(&self) -> u64 {
        http_body::Body::size_hint(&self.body).lower()
    }
}
