//! Connections to a server outside.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kevel_api::duration as go;
use kevel_clock::{Stopwatch, timer_now};
use kevel_kubeconfig::{CallAuthorization, ExecCredentials, ExecKeyPair};
use kevel_pki::verify::refusal;
use kevel_trace::{TraceSpan, answered, call_span};
use rustls::pki_types::ServerName;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::documents::{MAX_REDIRECTS, moved, resolve};
use super::endpoint::Endpoint;
use super::error::Error;
use super::tls;
use crate::egress::{Connector, ForwardProxy, failure, informational};
use crate::metrics::{OF_WEBHOOKS, REST_CLIENT, RestCall};

/// Default timeout of a call, its response included.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest answer that is read: a patch of the largest object, in base64, twice.
pub const MAX_ANSWER: usize = 8 << 20;

/// Time for which an idle connection is kept.
const IDLE: Duration = Duration::from_secs(90);
/// Most idle connections.
const MAX_IDLE: usize = 25;
/// After how long without a word an HTTP/2 connection is tried, and how long it has to answer:
/// otherwise calls would go to a peer that vanished until the system gives up.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("kube-apiserver/kevel-", env!("CARGO_PKG_VERSION")));

/// Connections that are kept, by server.
pub(super) type Connections = legacy::Client<HttpsConnector<Connector>, Full<Bytes>>;

/// Speaks to one server: HTTP/2 or HTTP/1.1, on connections that are kept.
pub struct Client {
    http: Rotating,
    scheme: Scheme,
    authority: Authority,
    /// The path of the endpoint's URL, without a slash at its end.
    base: String,
    authorization: CallAuthorization,
    user_agent: HeaderValue,
    traced: bool,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({}://{}{})", self.scheme, self.authority, self.base)
    }
}

impl Client {
    /// A client of an endpoint. Nothing is connected before the first call.
    pub fn new(endpoint: Endpoint) -> Result<Self, String> {
        let (scheme, authority, base) = location(&endpoint)?;
        let authorization =
            CallAuthorization::new(&endpoint.credentials, endpoint.impersonation.as_ref());
        let authorization = authorization.map_err(|error| error.to_string())?;
        let user_agent = endpoint.user_agent.map_or(USER_AGENT, HeaderValue::from_static);
        let current = Mutex::new((None, connections(&endpoint)?));
        let traced = endpoint.traced;
        let http = Rotating { endpoint, current };
        Ok(Client { http, scheme, authority, base, authorization, user_agent, traced })
    }

    /// Posts JSON to a path below that of the endpoint (empty: the endpoint itself), with a timeout parameter.
    pub async fn post_json(
        &self,
        path: &str,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Response<Bytes>, Error> {
        self.call(Method::POST, path, body, timeout, MAX_ANSWER).await
    }

    /// Posts JSON, with a larger limit of the response.
    pub async fn post_json_limited(
        &self,
        path: &str,
        body: Bytes,
        timeout: Duration,
        limit: usize,
    ) -> Result<Response<Bytes>, Error> {
        self.call(Method::POST, path, body, timeout, limit).await
    }

    /// Sends a GET for a path below that of the endpoint.
    pub async fn get(&self, path: &str, timeout: Duration) -> Result<Response<Bytes>, Error> {
        self.call(Method::GET, path, Bytes::new(), timeout, MAX_ANSWER).await
    }

    /// Follows redirects within the server, as the reference does: Go's `ServeMux` redirects paths with two slashes. One to
    /// another server is an answer like any other.
    async fn call(
        &self,
        mut method: Method,
        path: &str,
        mut body: Bytes,
        timeout: Duration,
        limit: usize,
    ) -> Result<Response<Bytes>, Error> {
        let told = format!("?timeout={}", go::Duration(timeout.as_nanos() as i64));
        let is_post = method == Method::POST;
        let path = if is_post && path.is_empty() { &told } else { path };
        let Client { scheme, authority, base, .. } = self;
        let slash = if base.is_empty() && path.starts_with('?') { "/" } else { "" };
        let verb = if is_post { "Post" } else { "Get" };
        let asked = format!("{verb} \"{scheme}://{authority}{base}{slash}{path}\"");
        let invalid =
            |reason: String| Error::Connection { request: asked.clone(), reason, lost: false };
        let unusable = |error| invalid(format!("invalid path: {error}"));
        let mut uri = self.uri(path).map_err(unusable)?;
        let deadline = timer_now() + timeout;
        let shown = timeout_at(deadline, self.authorization.current()).await;
        let late = |_| Error::Timeout { request: asked.clone(), reading: false };
        let refused = |error| invalid(format!("getting credentials: {error}"));
        let shown = shown.map_err(late)?.map_err(refused)?;
        let http = self.http.of(shown.of_plugin.as_deref());
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.request(&method, &uri, body.clone()).map_err(invalid)?;
            request.headers_mut().extend(shown.headers.clone());
            let span = match self.traced {
                true => call_span(&mut request),
                false => TraceSpan::default(),
            };
            let (sent, started) = (body.len(), Stopwatch::start());
            let exchanged = exchange(&http, request, &asked, deadline, limit);
            let answer = span.scope(exchanged).await;
            REST_CLIENT.record(RestCall {
                host: authority.as_str(),
                method: method.as_str(),
                code: answer.as_ref().ok().map(|answer| answer.status().as_u16()),
                took: started.elapsed(),
                sent: Some(sent),
                received: answer.as_ref().ok().map(|answer| answer.body().len()),
            });
            answered(&span, &answer);
            let Some(next) = answer.as_ref().ok().and_then(|answer| redirected(&uri, answer))
            else {
                if answer.as_ref().is_ok_and(|answer| answer.status() == StatusCode::UNAUTHORIZED) {
                    self.authorization.refused(shown.of_plugin).await;
                }
                return answer;
            };
            uri = next;
            if !answer.is_ok_and(|answer| keeps_method(answer.status())) {
                (method, body) = (Method::GET, Bytes::new());
            }
        }
        Err(invalid(format!("stopped after {MAX_REDIRECTS} redirects")))
    }

    fn uri(&self, path: &str) -> Result<Uri, http::Error> {
        let mut path = format!("{}{path}", self.base);
        if !path.starts_with('/') {
            path.insert(0, '/');
        }
        let path: PathAndQuery = path.parse()?;
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path);
        Ok(Uri::from_parts(parts)?)
    }

    fn request(
        &self,
        method: &Method,
        uri: &Uri,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(headers) = request.headers_mut() {
            headers.insert(header::ACCEPT, JSON);
            headers.insert(header::USER_AGENT, self.user_agent.clone());
            if *method == Method::POST {
                headers.insert(header::CONTENT_TYPE, JSON);
            }
        }
        request.body(Full::new(body)).map_err(|error| error.to_string())
    }
}

/// Target of a redirect within the same server.
fn redirected(uri: &Uri, answer: &Response<Bytes>) -> Option<Uri> {
    let next = resolve(uri, moved(answer)?).ok()?;
    (next.scheme() == uri.scheme() && next.authority() == uri.authority()).then_some(next)
}

/// Whether a redirect asks for the same request again. Otherwise its target is got, as by Go's client.
fn keeps_method(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

/// Connections that are made again when the certificate of a credential plug-in has changed: old ones show the old one.
struct Rotating {
    endpoint: Endpoint,
    current: Mutex<(Option<ExecKeyPair>, Connections)>,
}

impl Rotating {
    /// Connections for credentials of a plug-in.
    fn of(&self, credentials: Option<&ExecCredentials>) -> Connections {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let key_pair = credentials.and_then(|credentials| credentials.key_pair.as_ref());
        // What the endpoint says was good when the client was made.
        if key_pair != current.0.as_ref()
            && let Ok(connections) = connections(&self.endpoint)
        {
            *current = (key_pair.cloned(), connections);
        }
        current.1.clone()
    }
}

/// Connections that are made as an endpoint says. Nothing is connected before the first call.
pub(super) fn connections(endpoint: &Endpoint) -> Result<Connections, String> {
    let tls = tls::config(endpoint)?;
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let builder = match &endpoint.server_name {
        Some(name) => {
            let name = ServerName::try_from(name.clone());
            let name = name.map_err(|error| format!("tls-server-name: {error}"))?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
        None => builder,
    };
    let connector = Connector::new(endpoint.dialer.clone()).resolving(endpoint.resolve.clone());
    let connector = match &endpoint.proxy {
        Some(url) => connector.through(ForwardProxy::new(url.clone(), tls::config(endpoint)?)),
        None => connector,
    };
    let connector = match endpoint.http1_only {
        true => builder.enable_http1().wrap_connector(connector),
        false => builder.enable_all_versions().wrap_connector(connector),
    };
    Ok(legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(MAX_IDLE)
        .http2_keep_alive_interval(PING.0)
        .http2_keep_alive_timeout(PING.1)
        .build(connector))
}

/// A request, and its whole answer of so many bytes at most, which must be there by a deadline.
pub(super) async fn exchange(
    http: &Connections,
    mut request: Request<Full<Bytes>>,
    asked: &str,
    deadline: Instant,
    limit: usize,
) -> Result<Response<Bytes>, Error> {
    let address = request.uri().authority().map_or("", Authority::as_str).to_owned();
    let too_many = informational::exceeded(&mut request);
    let late = |reading| Error::Timeout { request: asked.to_owned(), reading };
    let answer = tokio::select! {
        answer = http.request(request) => answer,
        () = sleep_until(deadline) => return Err(late(false)),
        () = too_many => {
            let (request, reason) = (asked.to_owned(), informational::TOO_MANY.to_owned());
            return Err(Error::Connection { request, reason, lost: false });
        }
    };
    let answer = answer.inspect_err(|error| OF_WEBHOOKS.count(refusal(error)));
    let answer = answer.map_err(|error| Error::connection(asked.to_owned(), &error, &address))?;
    let (parts, body) = answer.into_parts();
    let body = timeout_at(deadline, Limited::new(body, limit).collect()).await;
    let body =
        body.map_err(|_| late(true))?.map_err(|error| match error.is::<LengthLimitError>() {
            true => Error::TooLarge { request: asked.to_owned(), limit },
            false => Error::Answer { reason: failure::of_answer(&*error, &address) },
        })?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

/// Scheme, host and path of an endpoint. As in the reference, a URL without a scheme is one with
/// TLS if anything was said about TLS, and what follows a question mark does not count.
fn location(endpoint: &Endpoint) -> Result<(Scheme, Authority, String), String> {
    let url = endpoint.url.trim();
    let tls = endpoint.ca.is_some()
        || endpoint.identity.is_some()
        || endpoint.insecure_skip_tls_verify
        || endpoint.server_name.is_some();
    let full = match url.contains("://") {
        true => url.to_owned(),
        false => format!("{}://{url}", if tls { "https" } else { "http" }),
    };
    let invalid = |why: &dyn std::fmt::Display| {
        format!("host must be a URL or a host:port pair: {url:?}: {why}")
    };
    let uri: Uri = full.parse().map_err(|error| invalid(&error))?;
    let scheme = uri.scheme().filter(|s| **s == Scheme::HTTPS || **s == Scheme::HTTP);
    let scheme = scheme.ok_or_else(|| invalid(&"unknown scheme"))?.clone();
    let authority = uri.authority().ok_or_else(|| invalid(&"no host"))?.clone();
    if authority.as_str().contains('@') {
        return Err("a URL must not have credentials in it".to_owned());
    }
    Ok((scheme, authority, uri.path().trim_end_matches('/').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_the_reference_reads_it() {
        let endpoint = |url: &str, insecure_skip_tls_verify| Endpoint {
            url: url.to_owned(),
            insecure_skip_tls_verify,
            ..Endpoint::default()
        };
        for (url, tls, expected) in [
            ("https://a.b:8443/authorize", false, "https a.b:8443 /authorize"),
            ("https://a.b/x/?timeout=1s", false, "https a.b /x"),
            ("a.b:80", false, "http a.b:80 "),
            ("a.b:80", true, "https a.b:80 "),
            ("https://[::1]:9/", false, "https [::1]:9 "),
        ] {
            let (scheme, authority, base) = location(&endpoint(url, tls)).unwrap();
            assert_eq!(format!("{scheme} {authority} {base}"), expected, "{url}");
        }
        for url in ["", "ftp://a", "https://", "https://me:secret@a"] {
            let error = location(&endpoint(url, false)).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
