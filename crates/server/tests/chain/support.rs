//! Fixtures of the chain tests.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::audit::{AuditMetrics, Auditor, Backend, Event, Policy};
use kevel_server::authentication::{
    Anonymous, Authenticated, AuthenticatedGroup, Authenticator, BearerToken, ClientCertificate,
    TokenFile, Union,
};
use kevel_server::authorization::{AlwaysAllow, Attributes, Authorizer, Opinion};
use kevel_server::body::{Body, Broken, Piece, Pieces};
use kevel_server::certificates::ClientIdentity;
use kevel_server::chain::{self, Config};
use kevel_server::handler::{Handler, Response};
use kevel_server::lifecycle::Lifecycle;
use kevel_server::request::{Request, RequestBody};

/// A chain to be built: every request is jane's, and allowed.
pub struct TestChain {
    pub config: Config,
    pub lifecycle: Lifecycle,
    pub users: Users,
}

impl Default for TestChain {
    fn default() -> Self {
        let lifecycle = Lifecycle::default();
        let users = Users::default();
        users.set(User { name: "jane".into(), ..User::default() });
        let config = Config::new(&lifecycle, Arc::new(users.clone()), Arc::new(AlwaysAllow));
        TestChain { config, lifecycle, users }
    }
}

impl TestChain {
    /// A chain with token authentication.
    pub fn with_tokens(csv: &str, anonymous: bool) -> Self {
        let mut test = TestChain::default();
        let tokens = TokenFile::parse("tokens.csv", csv).unwrap();
        let bearer = BearerToken::new(Arc::new(tokens), &[]);
        let known = AuthenticatedGroup(Union::new(vec![Arc::new(bearer)]));
        let mut members: Vec<Arc<dyn Authenticator>> = vec![Arc::new(known)];
        if anonymous {
            members.push(Arc::new(Anonymous::default()));
        }
        test.config.authenticator = Arc::new(Union::fail_on_error(members));
        test
    }

    /// A chain in which jane is allowed some requests.
    pub fn allowing(rules: Rules) -> Self {
        let mut test = TestChain::default();
        test.config.authorizer = Arc::new(rules);
        test
    }

    /// A chain whose authenticator, authorizer and audit backend write into the log.
    pub fn logging(log: &Log) -> Self {
        let mut test = TestChain::default();
        test.config.authenticator = Arc::new(log.clone());
        test.config.authorizer = Arc::new(log.clone());
        let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
        let policy = Policy::parse(policy.as_bytes()).unwrap();
        let auditor = Auditor::new(
            policy,
            Box::new(log.clone()),
            AuditMetrics::new(&test.config.metrics),
            kevel_clock::Clock::system(),
        );
        test.config.audit = Some(Arc::new(auditor));
        test
    }

    pub fn build(self, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
        chain::build(self.config, handler)
    }
}

/// `GET /path`
pub fn request(line: &str) -> Request {
    let (method, uri) = line.split_once(' ').unwrap();
    let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
    Request::new(request.into_parts().0, RequestBody::Bytes(Bytes::new()), Arc::default()).unwrap()
}

struct Function<F>(F);

impl<F, A> Handler for Function<F>
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: Future<Output = Response> + Send + 'static,
{
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        Box::pin((self.0)(request))
    }
}

/// A handler from a function.
pub fn handler<F, A>(function: F) -> Arc<dyn Handler>
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: Future<Output = Response> + Send + 'static,
{
    Arc::new(Function(function))
}

/// A handler that responds with a text.
pub fn answer(body: &'static str) -> Arc<dyn Handler> {
    handler(move |_| async move { text(body) })
}

pub fn text(body: impl Into<Bytes>) -> Response {
    http::Response::new(Body::from(body))
}

struct Script(VecDeque<Option<&'static str>>);

impl Pieces for Script {
    fn poll_piece(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Piece>> {
        Poll::Ready(match self.0.pop_front() {
            Some(None) => panic!("in a body"),
            piece => piece.flatten().map(|piece| Ok(Bytes::from(piece))),
        })
    }
}

/// A streamed response; `None` is a panic.
pub fn streamed(pieces: Vec<Option<&'static str>>) -> Response {
    http::Response::new(Body::pieces(Script(pieces.into())))
}

struct Endless(Option<&'static str>);

impl Pieces for Endless {
    fn poll_piece(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Piece>> {
        match self.0.take() {
            Some(piece) => Poll::Ready(Some(Ok(Bytes::from(piece)))),
            None => Poll::Pending,
        }
    }
}

/// A response with one piece and no end.
pub fn endless(piece: &'static str) -> Response {
    http::Response::new(Body::pieces(Endless(Some(piece))))
}

pub async fn read(response: Response) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Text of a response, and the error that truncates it, if any.
pub async fn read_to_end(response: Response) -> (String, Option<Broken>) {
    let mut body = response.into_body();
    let mut text = String::new();
    loop {
        match body.frame().await {
            None => return (text, None),
            Some(Err(broken)) => return (text, Some(broken)),
            Some(Ok(frame)) => text += &String::from_utf8_lossy(&frame.into_data().unwrap()),
        }
    }
}

/// Text of a header; empty if absent.
pub fn header(response: &Response, name: impl http::header::AsHeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

/// The message of a `Status`.
pub fn message(status: &str) -> String {
    let (_, rest) = status.split_once("\"message\":\"").unwrap();
    let (message, _) = rest.split_once("\",\"reason\"").unwrap();
    message.replace("\\\"", "\"").replace("\\u0026", "&")
}

/// Authenticator with the same user for every request.
#[derive(Clone, Default)]
pub struct Users(Arc<Mutex<Arc<User>>>);

impl Users {
    pub fn set(&self, user: User) {
        *self.0.lock().unwrap() = Arc::new(user);
    }
}

impl Authenticator for Users {
    fn authenticate<'a>(&'a self, _: &'a mut Request) -> Pending<'a, Authenticated> {
        let user = self.0.lock().unwrap().clone();
        Box::pin(std::future::ready(Ok(Some(user))))
    }
}

/// Authenticator whose certificates are names; only jane's is valid.
pub fn by_certificate() -> Arc<dyn Authenticator> {
    Arc::new(ClientCertificate::new(|certificates| {
        let common_name = match &*certificates[0] {
            b"jane" => "jane".to_owned(),
            b"nameless" => String::new(),
            _ => return Err("x509: certificate signed by unknown authority".to_owned()),
        };
        Ok(Arc::new(ClientIdentity {
            common_name,
            organizations: vec!["dev".into()],
            uid: String::new(),
            credential_id: "X509SHA256=00".into(),
        }))
    }))
}

/// Authorizer with rules `verb resource` or `verb /path`.
pub struct Rules(Vec<String>);

impl Rules {
    pub fn new(rules: &[&str]) -> Self {
        Rules(rules.iter().map(|&rule| rule.to_owned()).collect())
    }
}

impl Authorizer for Rules {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        let what = match (attributes.is_resource, attributes.subresource) {
            (true, "") => attributes.resource.to_owned(),
            (true, subresource) => format!("{}/{subresource}", attributes.resource),
            (false, _) => attributes.path.to_owned(),
        };
        let opinion = match self.0.contains(&format!("{} {what}", attributes.verb)) {
            true => Opinion::allow(),
            false if what == "/fail" => {
                Opinion { error: Some("no lister".into()), ..Opinion::none("") }
            }
            false => Opinion::none(""),
        };
        Box::pin(std::future::ready(opinion))
    }
}

/// Events in order; and whether audit events cannot be stored.
#[derive(Clone, Default)]
pub struct Log(pub Arc<Mutex<Vec<String>>>, pub bool);

impl Log {
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }
}

/// A handler that writes into the log.
pub fn logged(log: &Log) -> Arc<dyn Handler> {
    let log = log.clone();
    handler(move |request| {
        log.add("handle");
        async move {
            assert!(request.info.path != "/panic", "on request");
            text("ok")
        }
    })
}

impl Authenticator for Log {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        self.add("authenticate");
        let known = request.header(http::header::AUTHORIZATION).is_empty();
        let jane = User { name: "jane".into(), ..User::default() };
        Box::pin(std::future::ready(Ok(known.then(|| Arc::new(jane)))))
    }
}

impl Authorizer for Log {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        self.add(format!("authorize {} {}", attributes.user.name, attributes.verb));
        Box::pin(std::future::ready(Opinion::allow()))
    }
}

impl Backend for Log {
    fn name(&self) -> String {
        "test".to_owned()
    }

    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> Pending<'a, bool> {
        for event in events {
            let user = event.user.as_ref().map_or("nobody", |user| &user.name);
            let other = event.impersonated_user.as_ref().map_or("", |user| &user.name);
            let status = event.response_status.as_ref().map_or(&b""[..], |status| status.json());
            let status = String::from_utf8_lossy(status);
            self.add(format!("audit {:?} {user} {other} {status}", event.stage));
            let annotations = event.annotations.iter();
            annotations.for_each(|(key, value)| self.add(format!("audit {key}={value}")));
        }
        Box::pin(std::future::ready(!self.1))
    }
}
