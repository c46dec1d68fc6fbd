//! Proxying of one request to another API server.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use kevel_registry::query::{encode, escape_path};
use kevel_server::body::{Body, Broken, Piece, Pieces};
use kevel_server::handler::Response;
use kevel_server::proxy::{self, Outgoing, Upgraded, go_on};
use kevel_server::request::{Request, RequestBody, json_text};
use kevel_streaming::copy::copy_bidirectional;
use kevel_streaming::upgrade::is_upgrade_request;
use kevel_trace::{answered, call_span};
use tokio::time::{Sleep, sleep};

use super::headers;
use crate::lanes::Lease;
use crate::upstream::Server;

/// Timeout of discovery requests: clients wait for all of them.
const DISCOVERY: Duration = Duration::from_secs(5);

/// A request that is proxied to a server.
pub(crate) struct Passage<'a> {
    pub server: &'a Server,
    /// `host:port` of the server.
    pub address: &'a str,
    /// `--aggregator-reject-forwarding-redirect`
    pub reject_forwarding_redirects: bool,
    /// Additional header, which replaces a client's.
    pub mark: Option<(HeaderName, HeaderValue)>,
}

impl Passage<'_> {
    /// Proxies a request, and returns the response.
    pub async fn pass_on(self, request: Request) -> Response {
        let passed_on = match is_upgrade_request(&request.parts.headers) {
            true => self.upgrade(request).await,
            false => self.exchange(request).await,
        };
        passed_on.unwrap_or_else(|why| error(StatusCode::SERVICE_UNAVAILABLE, &why))
    }

    async fn exchange(&self, request: Request) -> Result<Response, String> {
        let is_discovery = !request.info.is_resource
            && request.info.path.trim_matches('/').split('/').count() == 3;
        let unreachable = |why| format!("error trying to reach service: {why}");
        let mut headers = headers::outgoing(&request, self.address).map_err(unreachable)?;
        self.mark(&mut headers);
        let mut outgoing = outgoing(request, headers)?;
        let span = call_span(&mut outgoing);
        let answer = span.scope(self.server.send(self.address, outgoing));
        let mut deadline = is_discovery.then(|| Box::pin(sleep(DISCOVERY)));
        let answer = match &mut deadline {
            None => answer.await,
            Some(deadline) => tokio::select! {
                answer = answer => answer,
                () = deadline => Err("context deadline exceeded".to_owned()),
            },
        };
        let answer = answer.map(|(answer, lease)| answer.map(|body| (body, lease)));
        answered(&span, &answer);
        let (parts, (body, lease)) = answer.map_err(unreachable)?.into_parts();
        let answer = http::Response::from_parts(parts, body);
        Ok(self.incoming(answer, lease, deadline))
    }

    async fn upgrade(&self, request: Request) -> Result<Response, String> {
        let mut headers = headers::outgoing_upgrade(&request, self.address)?;
        self.mark(&mut headers);
        let asked = outgoing(request, headers)?.map(drop);
        match self.server.send_upgrade(self.address, &asked).await? {
            Upgraded::Refused(mut response) => {
                proxy::headers::strip_cors(response.headers_mut());
                Ok(response)
            }
            Upgraded::Switched(parts, backend) => {
                Ok(go_on(parts, move |client| copy_bidirectional(client, backend, None)))
            }
        }
    }

    fn mark(&self, headers: &mut HeaderMap) {
        if let Some((name, value)) = self.mark.clone() {
            headers.insert(name, value);
        }
    }

    /// The answer as the client gets it, which breaks off at a deadline.
    fn incoming(
        &self,
        answer: http::Response<Incoming>,
        lease: Lease,
        deadline: Option<Pin<Box<Sleep>>>,
    ) -> Response {
        let redirects = answer.status().is_redirection()
            && answer.headers().get(header::LOCATION).is_some_and(|to| !to.is_empty());
        if redirects && self.reject_forwarding_redirects {
            let told = "the backend attempted to redirect this request, which is not permitted";
            return text(StatusCode::BAD_GATEWAY, told.to_owned());
        }
        let (mut parts, body) = answer.into_parts();
        proxy::headers::incoming(&mut parts.headers);
        let body = Passed { body: proxy::Passed::from(body), deadline, _lease: lease };
        let mut response = http::Response::new(Body::pieces(body));
        *response.status_mut() = parts.status;
        *response.headers_mut() = parts.headers;
        response
    }
}

/// The outgoing request: path and query are those that were authorized, in canonical form.
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

/// Plain text error response.
pub(crate) fn error(status: StatusCode, why: &str) -> Response {
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

/// Response body, streamed.
struct Passed {
    body: proxy::Passed,
    deadline: Option<Pin<Box<Sleep>>>,
    _lease: Lease,
}

impl Pieces for Passed {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let late = |deadline: &mut Pin<Box<Sleep>>| deadline.as_mut().poll(context).is_ready();
        if self.deadline.as_mut().is_some_and(late) {
            return Poll::Ready(Some(Err(Broken("the answer took too long"))));
        }
        Pin::new(&mut self.body).poll_piece(context)
    }

    fn trailers(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Option<HeaderMap> {
        Pin::new(&mut self.body).trailers(context)
    }

    fn at_least(&self) -> u64 {
        self.body.at_least()
    }
}
