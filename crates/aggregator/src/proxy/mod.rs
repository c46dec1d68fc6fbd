//! Requests for versions that another server answers for are passed on to it.

mod headers;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use kevel_server::body::{Body, Piece, Pieces};
use kevel_server::delegate::not_found;
use kevel_server::future::Pending;
use kevel_server::handler::{Filter, Handler, Response};
use kevel_server::proxy::{self, Outgoing, Upgraded, go_on};
use kevel_server::query::{encode, escape_path};
use kevel_server::request::{Request, RequestBody, json_text};
use kevel_server::service_resolver::ServiceResolver;
use kevel_streaming::copy::copy_bidirectional;
use kevel_streaming::upgrade::is_upgrade_request;

use crate::api_service::{GROUP, LEGACY, ServiceReference};
use crate::lanes::Lease;
use crate::registered::{ApiServices, Registered};
use crate::upstream::Upstream;

/// How long a server may take to describe a version: clients wait for all of them.
const DISCOVERY: Duration = Duration::from_secs(5);

/// Passes requests on to the servers of API services.
#[derive(Clone, Debug)]
pub struct Proxy {
    pub(crate) services: Arc<ApiServices>,
    pub(crate) resolver: Arc<ServiceResolver>,
    /// `--aggregator-reject-forwarding-redirect`
    pub(crate) reject_forwarding_redirects: bool,
}

impl Filter for Proxy {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let remote = self.services.remote();
        // Nearly always: who aggregates nothing pays nothing for it.
        if remote.is_empty() {
            return next.handle(request);
        }
        let one = service_of(&request.info.path).and_then(|name| remote.get(&name).cloned());
        match one {
            None => next.handle(request),
            Some(one) => Box::pin(async move { self.pass_on(&one, request).await }),
        }
    }
}

impl Proxy {
    /// Passes a request on, and the answer back.
    pub(crate) async fn pass_on(&self, one: &Registered, request: Request) -> Response {
        let Registered { service, upstream: Some(upstream) } = one else {
            return not_found(&request);
        };
        if !service.available {
            return error(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
        }
        if let Err(wrong) = upstream.check() {
            return error(StatusCode::INTERNAL_SERVER_ERROR, &wrong);
        }
        let ServiceReference { namespace, name, port } = &upstream.service;
        let address = match self.resolver.resolve(namespace, name, *port) {
            Ok(address) => address,
            Err(why) => {
                tracing::error!("error resolving {namespace}/{name}: {why}");
                return error(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
            }
        };
        let passed_on = match is_upgrade_request(&request.parts.headers) {
            true => self.upgrade(upstream, &address, request).await,
            false => self.exchange(upstream, &address, request).await,
        };
        passed_on.unwrap_or_else(|why| error(StatusCode::SERVICE_UNAVAILABLE, &why))
    }

    async fn exchange(
        &self,
        upstream: &Upstream,
        address: &str,
        request: Request,
    ) -> Result<Response, String> {
        let is_discovery = !request.info.is_resource
            && request.info.path.trim_matches('/').split('/').count() == 3;
        let unreachable = |why| format!("error trying to reach service: {why}");
        let headers = headers::outgoing(&request, address).map_err(unreachable)?;
        let answer = upstream.send(address, outgoing(request, headers)?);
        let answer = match is_discovery {
            false => answer.await,
            true => match tokio::time::timeout(DISCOVERY, answer).await {
                Ok(answer) => answer,
                Err(_) => Err("context deadline exceeded".to_owned()),
            },
        };
        let (answer, lease) = answer.map_err(unreachable)?;
        Ok(self.incoming(answer, lease))
    }

    async fn upgrade(
        &self,
        upstream: &Upstream,
        address: &str,
        request: Request,
    ) -> Result<Response, String> {
        let headers = headers::outgoing_upgrade(&request, address)?;
        let asked = outgoing(request, headers)?.map(drop);
        match upstream.send_upgrade(address, &asked).await? {
            Upgraded::Refused(mut response) => {
                proxy::headers::strip_cors(response.headers_mut());
                Ok(response)
            }
            Upgraded::Switched(parts, backend) => {
                Ok(go_on(parts, move |client| copy_bidirectional(client, backend, None)))
            }
        }
    }

    /// The answer as the client gets it.
    fn incoming(&self, answer: http::Response<Incoming>, lease: Lease) -> Response {
        let redirects = answer.status().is_redirection()
            && answer.headers().get(header::LOCATION).is_some_and(|to| !to.is_empty());
        if redirects && self.reject_forwarding_redirects {
            let told = "the backend attempted to redirect this request, which is not permitted";
            return text(StatusCode::BAD_GATEWAY, told.to_owned());
        }
        let (mut parts, body) = answer.into_parts();
        proxy::headers::incoming(&mut parts.headers);
        let body = Passed { body: proxy::Passed::from(body), _lease: lease };
        let mut response = http::Response::new(Body::pieces(body));
        *response.status_mut() = parts.status;
        *response.headers_mut() = parts.headers;
        response
    }
}

/// The API service that answers for a path, if another server may.
fn service_of(path: &str) -> Option<String> {
    if path == "/api" || path.starts_with("/api/") {
        return Some(LEGACY.to_owned());
    }
    let (group, rest) = path.strip_prefix("/apis/")?.split_once('/')?;
    let version = rest.split_once('/').map_or(rest, |(version, _)| version);
    (group != GROUP && !version.is_empty()).then(|| format!("{version}.{group}"))
}

/// The request as it is sent: path and query are those that were authorized, whatever the client
/// wrote them like.
fn outgoing(request: Request, headers: http::HeaderMap) -> Result<http::Request<Outgoing>, String> {
    let body = match request.body {
        RequestBody::Incoming(body) => Either::Left(body),
        RequestBody::Bytes(bytes) => Either::Right(Full::new(bytes)),
        RequestBody::Object(tree) => Either::Right(Full::new(json_text(&tree))),
    };
    let (path, query) = (escape_path(&request.info.path), encode(&request.info.query));
    let path = if query.is_empty() { path } else { format!("{path}?{query}") };
    let outgoing = http::Request::builder().method(request.parts.method.clone()).uri(path);
    let mut outgoing = outgoing.body(body).map_err(|error| error.to_string())?;
    *outgoing.headers_mut() = headers;
    Ok(outgoing)
}

fn error(status: StatusCode, why: &str) -> Response {
    let mut response = text(status, format!("{why}\n"));
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn text(status: StatusCode, text: String) -> Response {
    let mut response = http::Response::new(Body::from(text));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// What the other server says, as it comes.
struct Passed {
    body: proxy::Passed,
    _lease: Lease,
}

impl Pieces for Passed {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        Pin::new(&mut self.body).poll_piece(context)
    }

    fn trailers(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Option<HeaderMap> {
        Pin::new(&mut self.body).trailers(context)
    }

    fn at_least(&self) -> u64 {
        self.body.at_least()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_its_api_service() {
        for (path, expected) in [
            ("/api", Some("v1.")),
            ("/api/v1/pods", Some("v1.")),
            ("/apis", None),
            ("/apis/", None),
            ("/apis/a.io", None),
            ("/apis/a.io/", None),
            ("/apis/a.io/v1", Some("v1.a.io")),
            ("/apis/a.io/v1/", Some("v1.a.io")),
            ("/apis/a.io/v1/things/x", Some("v1.a.io")),
            ("/apis/apiregistration.k8s.io/v1/apiservices", None),
            ("/openapi/v3", None),
        ] {
            assert_eq!(service_of(path).as_deref(), expected, "{path}");
        }
    }
}
