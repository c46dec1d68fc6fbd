//! Sign-in by a code of the terminal.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kevel_clock::ManualClock;
use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::authentication::{Authenticator as _, Union};
use kevel_server::body::Body;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::{Connection, Request, RequestBody};
use kevel_ui::{Front, SessionAuthenticator, UiConfig};

/// Answers with the name of the user, and the path that is asked for.
struct Whoami(SessionAuthenticator);

impl Handler for Whoami {
    fn handle<'a>(&'a self, mut request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            let user = self.0.authenticate(&mut request).await.unwrap();
            let user = user.map_or_else(|| "anonymous".to_owned(), |user| user.name.clone());
            let certificates = request.connection.certificates.len();
            let headers = request.parts.headers.len();
            let text = format!("{user} {} {certificates} {headers}", request.info.path);
            http::Response::new(Body::from(text))
        })
    }
}

/// The page, with the codes that it has printed.
struct Terminal {
    front: Front,
    clock: ManualClock,
    printed: Arc<Mutex<Vec<String>>>,
}

impl Terminal {
    fn new(administrator: Option<&str>) -> Self {
        let clock = ManualClock::at_present();
        let administrator =
            administrator.map(|name| User { name: name.to_owned(), ..User::default() });
        let config = UiConfig { clock: clock.clock(), administrator };
        let inner = SessionAuthenticator::before(Arc::new(Union::default()));
        let front = Front::before(Arc::new(Whoami(inner)), config);
        let printed = Arc::<Mutex<Vec<String>>>::default();
        let to = printed.clone();
        front.with_terminal(move |code| to.lock().unwrap().push(code.reveal().to_owned()));
        Terminal { front, clock, printed }
    }

    fn codes(&self) -> Vec<String> {
        self.printed.lock().unwrap().clone()
    }

    /// Sends a request of the page; returns the code, the cookie and the body.
    async fn send(&self, what: &str, cookie: &str, body: &str) -> (u16, String, String) {
        let (method, path) = what.split_once(' ').unwrap();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("x-kevel-ui", "1")
            .header("cookie", cookie)
            .header("impersonate-user", "joe")
            .header("content-length", body.len())
            .body(())
            .unwrap();
        let body = RequestBody::Bytes(Bytes::copy_from_slice(body.as_bytes()));
        let certificates = vec![Bytes::from_static(b"certificate")];
        let connection = Connection { certificates, ..Connection::default() };
        let request = Request::new(request.into_parts().0, body, Arc::new(connection)).unwrap();
        let response = self.front.handle(request).await;
        let status = response.status().as_u16();
        let cookie = response.headers().get("set-cookie").map(|value| value.to_str().unwrap());
        let cookie = cookie.unwrap_or_default().split(';').next().unwrap().to_owned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, cookie, String::from_utf8_lossy(&body).into_owned())
    }

    async fn sign_in(&self, code: &str) -> (u16, String) {
        let body = format!(r#"{{"code":"{code}"}}"#);
        let (status, cookie, _) = self.send("POST /ui/session", "", &body).await;
        (status, cookie)
    }
}

#[tokio::test]
async fn code_signs_in_as_the_administrator_once() {
    let terminal = Terminal::new(Some("root"));
    let [code] = terminal.codes().try_into().unwrap();
    assert_eq!(terminal.sign_in("WRONG").await.0, 401);
    let (status, cookie) = terminal.sign_in(&code).await;
    assert_eq!(status, 200);
    assert_eq!(terminal.sign_in(&code).await.0, 401);

    // Of the request's own headers, only its length is passed on; the certificate is not.
    let answer = terminal.send("GET /ui/api/api/v1/pods?a=b", &cookie, "").await;
    assert_eq!((answer.0, answer.2.as_str()), (200, "root /api/v1/pods 0 1"));
    let other = format!("a=b; {cookie}; c=d");
    assert_eq!(terminal.send("GET /ui/api/version", &other, "").await.0, 200);
    let wrong = format!("{cookie}0");
    assert_eq!(terminal.send("GET /ui/api/version", &wrong, "").await.0, 401);
    terminal.clock.advance(Duration::from_secs(3600));
    assert_eq!(terminal.send("GET /ui/api/version", &cookie, "").await.0, 401);
}

#[tokio::test]
async fn new_code_is_printed_when_the_old_one_is_over() {
    let terminal = Terminal::new(Some("root"));
    assert_eq!(terminal.send("POST /ui/code", "", "").await.0, 204);
    assert_eq!(terminal.codes().len(), 1, "the first is valid");
    terminal.clock.advance(Duration::from_secs(600));
    assert_eq!(terminal.send("POST /ui/code", "", "").await.0, 204);
    let [old, new] = terminal.codes().try_into().unwrap();
    assert_eq!(terminal.sign_in(&old).await.0, 401);
    assert_eq!(terminal.sign_in(&new).await.0, 200);
}

#[tokio::test]
async fn without_an_administrator_there_are_no_codes() {
    let terminal = Terminal::new(None);
    assert!(terminal.codes().is_empty());
    assert_eq!(terminal.send("POST /ui/code", "", "").await.0, 204);
    assert!(terminal.codes().is_empty());
    assert_eq!(terminal.sign_in("").await.0, 400);
    assert_eq!(terminal.sign_in("AAAA-AAAA-AAAA").await.0, 401);
}

#[tokio::test]
async fn requests_outside_of_the_page_have_no_session() {
    let terminal = Terminal::new(Some("root"));
    let [code] = terminal.codes().try_into().unwrap();
    let (_, cookie) = terminal.sign_in(&code).await;
    for path in ["/api/v1/pods", "/u%69/api/version", "/ui2", "/ui/search"] {
        let answer = terminal.send(&format!("GET {path}"), &cookie, "").await;
        assert!(answer.2.starts_with("anonymous "), "{path}: {}", answer.2);
    }
}
