//! The handler before the handler chain: files of the page, sign-in, and requests of sessions.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::BodyExt as _;
use kevel_api::value::{Map, Value};
use kevel_clock::Clock;
use kevel_codec::json;
use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_registry::verb::Verb;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::{Connection, Request, RequestBody};

use crate::answers::{empty, refusal, sealed};
use crate::authenticator::SessionUser;
use crate::code::{SignInCode, SignInCodes};
use crate::search::SEARCH_PATH;
use crate::sessions::{Credential, Sessions, SignedIn};
use crate::{answers, assets, origin};

/// Largest body of a sign-in: a token is a few KiB.
const MAX_SIGN_IN: u64 = 32 << 10;
/// Time for the body of a sign-in to arrive.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer that says which user a token is of.
const MAX_REVIEW: usize = 1 << 20;
/// Name of the cookie. The prefix makes browsers refuse it without `Secure`.
const COOKIE: &str = "__Secure-kevel-ui";
const COOKIE_ATTRIBUTES: &str = "; Path=/ui/; Secure; HttpOnly; SameSite=Strict";
/// Headers that are passed on to the API. None names a user or changes the protocol.
const PASSED_ON: [HeaderName; 5] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::USER_AGENT,
];
/// Plain paths of the API that the page reads.
const PLAIN_PATHS: [&str; 5] = ["/api", "/apis", "/version", "/metrics", SEARCH_PATH];
/// Subresources that lead to other servers, whose answers must not be of this origin.
const LEADING_AWAY: [&str; 4] = ["proxy", "exec", "attach", "portforward"];
const REVIEW_PATH: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;

/// Settings of the page.
#[derive(Debug)]
pub struct UiConfig {
    /// Clock of the server.
    pub clock: Clock,
    /// The administrator, the user of sessions by code; without one there are no codes.
    pub administrator: Option<User>,
}

/// Serves the page, and passes all other requests on to the handler chain.
pub struct Front {
    next: Arc<dyn Handler>,
    sessions: Sessions,
    codes: SignInCodes,
    administrator: Option<Arc<User>>,
    terminal: OnceLock<Terminal>,
}

/// Reason why a sign-in is refused, as the user sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum SignInError {
    #[error("the code is wrong, used or expired")]
    Code,
    #[error("this is no token")]
    NotAToken,
    #[error("the server does not know this token")]
    UnknownToken,
}

/// Prints a code on the terminal.
type Terminal = Box<dyn Fn(&SignInCode) + Send + Sync>;

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Front")
    }
}

impl Front {
    /// The page before a handler chain, which authenticates by a
    /// [`SessionAuthenticator`](crate::SessionAuthenticator).
    pub fn before(next: Arc<dyn Handler>, config: UiConfig) -> Self {
        Front {
            next,
            sessions: Sessions::new(config.clock.clone()),
            codes: SignInCodes::new(config.clock),
            administrator: config.administrator.map(Arc::new),
            terminal: OnceLock::new(),
        }
    }

    /// Allows codes, which are shown by `print` alone; prints the first one. Without an administrator, nothing happens.
    pub fn with_terminal(&self, print: impl Fn(&SignInCode) + Send + Sync + 'static) {
        if self.administrator.is_some() && self.terminal.set(Box::new(print)).is_ok() {
            self.print_code();
        }
    }

    fn print_code(&self) {
        if let Some(print) = self.terminal.get()
            && let Some(code) = self.codes.issue()
        {
            print(&code);
        }
    }

    async fn serve(&self, below: &str, request: Request) -> Response {
        let reads = matches!(request.parts.method, Method::GET | Method::HEAD);
        if reads && let Some(file) = assets::serve(below, &request) {
            return file;
        }
        let is_endpoint = matches!(below, "session" | "code") || below.starts_with("api/");
        if !is_endpoint {
            return refusal(StatusCode::NOT_FOUND, "not found");
        }
        if !origin::is_own(&request) {
            return refusal(StatusCode::FORBIDDEN, "not a request of the page");
        }
        match (below, request.parts.method.as_str()) {
            ("session", "GET") => self.show_session(&request),
            ("session", "POST") => self.sign_in(request).await,
            ("session", "DELETE") => self.sign_out(&request),
            ("code", "POST") => {
                self.print_code();
                empty(StatusCode::NO_CONTENT)
            }
            ("session" | "code", _) => {
                refusal(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
            }
            _ => self.pass_on(below.strip_prefix("api").unwrap_or_default(), request).await,
        }
    }

    fn show_session(&self, request: &Request) -> Response {
        let mut fields = Map::new();
        if let Some((_, session)) = self.session(request) {
            fields.insert("user", Value::String((&*session.user).into()));
        }
        fields.insert("codes", Value::Bool(self.terminal.get().is_some()));
        answers::json(StatusCode::OK, fields)
    }

    /// The ID and the session of a request. Another page of the host may have set a cookie of this name for a longer
    /// path, so each is tried.
    fn session(&self, request: &Request) -> Option<(String, SignedIn)> {
        let cookies = request.parts.headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|cookies| cookies.to_str().ok());
        let mut ids = cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        ids.find_map(|id| Some((id.to_owned(), self.sessions.find(id)?)))
    }

    async fn sign_in(&self, mut request: Request) -> Response {
        let length = request.header(header::CONTENT_LENGTH).parse::<u64>();
        if length.is_err() {
            return refusal(StatusCode::LENGTH_REQUIRED, "Content-Length is missing");
        }
        if length.is_ok_and(|length| length > MAX_SIGN_IN) {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the token is too long");
        }
        let Ok(Ok(body)) = tokio::time::timeout(PATIENCE, request.read_body()).await else {
            return refusal(StatusCode::BAD_REQUEST, "the request is incomplete");
        };
        let given = json::decode_any(&body, json::Unknown::Ignore).ok().map(|given| given.value);
        let text = |field| given.as_ref().map_or("", |given| given.str_at(&[field]).trim());
        let found = match (text("code"), text("token")) {
            ("", "") => return refusal(StatusCode::BAD_REQUEST, "a code or a token is needed"),
            ("", token) => self.by_token(token, &request.connection).await,
            (code, _) => self.by_code(code),
        };
        let (credential, user) = match found {
            Ok(found) => found,
            Err(error) => return refusal(StatusCode::UNAUTHORIZED, &error.to_string()),
        };
        if let Some((former, _)) = self.session(&request) {
            self.sessions.end(&former);
        }
        let Some(id) = self.sessions.begin(credential, &user) else {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many sessions; try again later");
        };
        tracing::info!(user = user.as_str(), "Signed in to /ui/");
        let mut fields = Map::new();
        fields.insert("user", Value::String(user.as_str().into()));
        with_cookie(answers::json(StatusCode::OK, fields), &format!("{COOKIE}={id}"))
    }

    fn sign_out(&self, request: &Request) -> Response {
        if let Some((id, _)) = self.session(request) {
            self.sessions.end(&id);
        }
        with_cookie(empty(StatusCode::NO_CONTENT), &format!("{COOKIE}=; Max-Age=0"))
    }

    fn by_code(&self, code: &str) -> Result<(Credential, String), SignInError> {
        let valid = self.terminal.get().is_some() && self.codes.redeem(code);
        let administrator = self.administrator.as_ref().filter(|_| valid);
        let administrator = administrator.ok_or(SignInError::Code)?;
        Ok((Credential::Administrator(administrator.clone()), administrator.name.clone()))
    }

    /// Asks the API for the user of a token, by a request with that token.
    async fn by_token(
        &self,
        token: &str,
        connection: &Connection,
    ) -> Result<(Credential, String), SignInError> {
        const UNKNOWN: SignInError = SignInError::UnknownToken;
        let mut header =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| SignInError::NotAToken)?;
        header.set_sensitive(true);
        let credential = Credential::Token(header);
        let request = http::Request::post(REVIEW_PATH)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(());
        let (parts, ()) = request.map_err(|_| UNKNOWN)?.into_parts();
        let body = RequestBody::Bytes(Bytes::from_static(REVIEW.as_bytes()));
        let request = session_request(parts, body, connection, &credential).ok_or(UNKNOWN)?;
        let response = self.next.handle(request).await;
        if response.status() != StatusCode::CREATED {
            return Err(UNKNOWN);
        }
        let body = http_body_util::Limited::new(response.into_body(), MAX_REVIEW);
        let body = body.collect().await.map_err(|_| UNKNOWN)?.to_bytes();
        let review = json::decode_any(&body, json::Unknown::Ignore).map_err(|_| UNKNOWN)?;
        let user = review.value.str_at(&["status", "userInfo", "username"]).to_owned();
        Ok((credential, user))
    }

    /// Passes a request of a session on to the API, as its user.
    async fn pass_on(&self, path: &str, request: Request) -> Response {
        let Some((_, session)) = self.session(&request) else {
            return refusal(StatusCode::UNAUTHORIZED, "signed out");
        };
        let is_allowed =
            PLAIN_PATHS.contains(&path) || path.starts_with("/api/") || path.starts_with("/apis/");
        let target = match request.parts.uri.query() {
            Some(query) => PathAndQuery::try_from(format!("{path}?{query}")),
            None => PathAndQuery::try_from(path),
        };
        let (true, Ok(target)) = (is_allowed, target) else {
            return refusal(StatusCode::NOT_FOUND, "not found");
        };
        let Request { mut parts, body, connection, .. } = request;
        parts.uri = Uri::from(target);
        parts.headers = passed_on(&parts.headers);
        // Nothing that a former reader has left in the request, such as a protocol upgrade.
        parts.extensions.clear();
        let Some(request) = session_request(parts, body, &connection, &session.credential) else {
            return refusal(StatusCode::BAD_REQUEST, "the path is invalid");
        };
        if request.info.verb == Verb::Proxy
            || LEADING_AWAY.contains(&request.info.subresource.as_str())
        {
            return refusal(StatusCode::FORBIDDEN, "not through the page");
        }
        sealed(self.next.handle(request).await)
    }
}

/// A request of a session's user, without the certificates of the connection.
fn session_request(
    mut parts: http::request::Parts,
    body: RequestBody,
    connection: &Connection,
    credential: &Credential,
) -> Option<Request> {
    match credential {
        Credential::Administrator(user) => {
            parts.extensions.insert(SessionUser(user.clone()));
        }
        Credential::Token(header) => {
            parts.headers.insert(header::AUTHORIZATION, header.clone());
        }
    }
    let Connection { peer, clock, .. } = connection;
    let connection = Connection { peer: *peer, certificates: Vec::new(), clock: clock.clone() };
    Request::new(parts, body, Arc::new(connection))
}

fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let passed =
        PASSED_ON.iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone())));
    passed.collect()
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::try_from(format!("{cookie}{COOKIE_ATTRIBUTES}")) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

impl Handler for Front {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        let path = request.parts.uri.path();
        if path == "/ui" {
            let mut response = empty(StatusCode::MOVED_PERMANENTLY);
            response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/ui/"));
            return Box::pin(std::future::ready(response));
        }
        // The search is an endpoint of the chain, for clients with credentials of their own, too.
        match path.strip_prefix("/ui/").filter(|_| path != SEARCH_PATH).map(str::to_owned) {
            Some(below) => Box::pin(async move { self.serve(&below, request).await }),
            None => self.next.handle(request),
        }
    }
}
