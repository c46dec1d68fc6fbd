//! Spans of requests and filters (upstream: `WithTracing`, `filterlatency`): see [`kevel_trace`].

use std::net::SocketAddr;

use http::header::{CONTENT_LENGTH, HOST, USER_AGENT};
use http::{HeaderMap, Method, Version};
use kevel_trace::{KeyValue, Parent, Status, TraceProvider, TraceSpan, number, text};

use super::audit_init::logged;
use super::held::{Hold, hold};
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use crate::request_info::RequestInfo;
use kevel_component::future::Pending;
use kevel_registry::user::{MONITORING, PRIVILEGED, User};

/// Header by which a proxy names the client.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Methods that have names in OpenTelemetry; any other is reported as GET, with its own name beside.
const METHODS: [Method; 9] = [
    Method::CONNECT,
    Method::DELETE,
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
    Method::PATCH,
    Method::POST,
    Method::PUT,
    Method::TRACE,
];

/// Starts the span of a request. Without a provider the client's trace context is passed on to other servers.
#[derive(Debug)]
pub(super) struct Tracing(pub Option<TraceProvider>);

impl Filter for Tracing {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let remote = kevel_trace::remote(&request.parts.headers);
        let Some(provider) = &self.0 else {
            return match remote {
                Some(remote) => Box::pin(remote.scope(within(next, request))),
                None => next.handle(request),
            };
        };
        let parent = match request.user.as_ref().is_some_and(|user| is_trusted(user)) {
            true => Parent::Trusted(remote),
            false => Parent::Untrusted(remote),
        };
        let name = name(&request.info, &request.parts.method);
        let span = provider.server(name, parent, request.received.started.elapsed());
        span.set(|| attributes(&request));
        let pending = span.scope(within(next, request));
        Box::pin(async move {
            let response = pending.await;
            if !span.is_recording() {
                return response;
            }
            let code = response.status();
            span.set(|| vec![number("http.response.status_code", code.as_u16())]);
            if code.is_server_error() {
                span.set_status(Status::error(""));
            }
            hold(response, ServerSpan { span, size: 0 })
        })
    }
}

/// Handles a request within its span, including the handlers' synchronous part.
async fn within(next: &dyn Handler, request: Request) -> Response {
    next.handle(request).await
}

/// Whether a user decides which of its requests are recorded.
fn is_trusted(user: &User) -> bool {
    user.groups.iter().any(|group| group == PRIVILEGED || group == MONITORING)
}

/// Name of a request's span: the method, and the form of a resource's path.
fn name(info: &RequestInfo, method: &Method) -> String {
    if !info.is_resource {
        return method.to_string();
    }
    let mut name = format!("{method} /{}", info.prefix);
    let mut push = |part: &str| {
        if !part.is_empty() {
            name.push('/');
            name.push_str(part);
        }
    };
    push(&info.group);
    push(&info.version);
    push(if info.namespace.is_empty() { "" } else { "namespaces/{:namespace}" });
    push(&info.resource);
    push(if info.name.is_empty() { "" } else { "{:name}" });
    push(&info.subresource);
    name
}

fn attributes(request: &Request) -> Vec<KeyValue> {
    let (parts, headers) = (&request.parts, &request.parts.headers);
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    let host = authority.unwrap_or_else(|| request.header(HOST));
    let (host, port) = split(host);
    let mut attributes = vec![text("server.address", host), text("url.scheme", "https")];
    match METHODS.contains(&parts.method) {
        true => attributes.push(text("http.request.method", parts.method.as_str())),
        false => attributes.extend([
            text("http.request.method", "GET"),
            text("http.request.method_original", parts.method.as_str()),
        ]),
    }
    attributes.extend(port.map(|port| number("server.port", port)));
    if let Some(peer) = request.connection.peer {
        attributes.extend([
            text("network.peer.address", peer.ip().to_canonical().to_string()),
            number("network.peer.port", peer.port()),
        ]);
    }
    let agent = request.header(USER_AGENT);
    attributes.extend((!agent.is_empty()).then(|| text("user_agent.original", agent)));
    attributes.extend(
        client(headers, request.connection.peer).map(|client| text("client.address", client)),
    );
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    attributes.extend([
        text("url.path", request.info.path.as_str()),
        text("network.protocol.version", version(parts.version)),
        text("http.target", target),
        text("audit-id", logged(&request.audit_id)),
    ]);
    let length = request.header(CONTENT_LENGTH).parse::<u64>().ok().filter(|length| *length > 0);
    attributes.extend(length.map(|length| number("http.request.body.size", length)));
    attributes
}

/// Host and port of an authority.
fn split(authority: &str) -> (&str, Option<u16>) {
    let end = authority.rfind(']').unwrap_or(0);
    let (host, port) = match authority.get(end..).and_then(|rest| rest.rfind(':')) {
        Some(colon) => authority.split_at(end + colon),
        None => (authority, ""),
    };
    (host.trim_matches(['[', ']']), port.trim_start_matches(':').parse().ok())
}

/// Address of the client: the one that a proxy reports, or the peer's.
fn client(headers: &HeaderMap, peer: Option<SocketAddr>) -> Option<String> {
    let forwarded = headers.get(FORWARDED_FOR).and_then(|value| value.to_str().ok());
    let first = forwarded.and_then(|all| all.split(',').next()).map(str::trim);
    match first.filter(|first| !first.is_empty()) {
        Some(first) => Some(first.to_owned()),
        None => peer.map(|peer| peer.ip().to_canonical().to_string()),
    }
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2.0",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}

/// Span of a request until its response has been sent.
struct ServerSpan {
    span: TraceSpan,
    size: u64,
}

impl Hold for ServerSpan {
    fn sent(&mut self, bytes: u64) {
        self.size += bytes;
    }
}

impl Drop for ServerSpan {
    fn drop(&mut self) {
        if self.size > 0 {
            self.span.set(|| vec![number("http.response.body.size", self.size)]);
        }
    }
}

impl Hold for TraceSpan {}

/// Span of a filter and of all that follows it. Part of the chain only where spans are recorded.
#[derive(Debug)]
pub(super) struct FilterSpan {
    provider: TraceProvider,
    name: &'static str,
}

impl FilterSpan {
    /// The span of a filter, if spans are recorded.
    pub(super) fn of(provider: Option<&TraceProvider>, name: &'static str) -> Option<Self> {
        provider.map(|provider| FilterSpan { provider: provider.clone(), name })
    }
}

impl Filter for FilterSpan {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let span = self.provider.filter(self.name);
        let pending = span.scope(within(next, request));
        Box::pin(async move {
            let response = pending.await;
            match span.is_recording() {
                true => hold(response, span),
                false => response,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_named_by_form_of_path() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/nodes", "GET /api/v1/nodes"),
            ("PUT", "/api/v1/nodes/a/status", "PUT /api/v1/nodes/{:name}/status"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/b",
                "PATCH /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}",
            ),
            ("GET", "/healthz", "GET"),
        ] {
            let method: Method = method.parse().unwrap();
            let info = RequestInfo::new(&method, &uri.parse().unwrap()).unwrap();
            assert_eq!(name(&info, &method), expected);
        }
    }

    #[test]
    fn authorities_have_hosts_and_ports() {
        for (authority, expected) in [
            ("a.b:6443", ("a.b", Some(6443))),
            ("a.b", ("a.b", None)),
            ("[::1]:80", ("::1", Some(80))),
            ("[::1]", ("::1", None)),
            ("", ("", None)),
        ] {
            assert_eq!(split(authority), expected, "{authority}");
        }
    }
}
