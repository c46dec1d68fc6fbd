//! Servers outside, over real TLS: how they are called, and audit events on their way to one.
#![allow(clippy::unwrap_used)]

mod audit;
mod client;
mod kubeconfig;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use kevel_component::future::Pending;
use kevel_component::signals::Signal;
use kevel_server::body::Body;
use kevel_server::certificates::{
    AltNames, Authority, CaBundle, Certificate, Dynamic, Issued, Subject,
};
use kevel_server::handler::{Handler, Response};
use kevel_server::request::Request;
use kevel_server::serving::{
    Limits, Listen, SecureServing, Serving, Tls, TlsOptions, listen, serve,
};
use kevel_server::webhook::Endpoint;
use tokio::sync::Notify;

/// A server that notes what it is asked, and answers as it is told to.
struct Receiver {
    served: Serving,
    authority: Authority,
    folder: tempfile::TempDir,
    received: Received,
    _stop: Signal,
}

/// Requests so far, and the next responses; 200 in the end.
#[derive(Clone, Default)]
struct Received {
    requests: Arc<Mutex<Vec<Asked>>>,
    answers: Arc<Mutex<Vec<Answer>>>,
    came: Arc<Notify>,
}

#[derive(Clone, Debug, PartialEq)]
struct Asked {
    /// `POST /path HTTP/2.0`
    line: String,
    /// `Authorization`, and the common name of the client's certificate.
    who: (String, String),
    body: String,
}

/// A code, a body and how long it is waited with.
type Answer = (u16, Vec<u8>, Option<Signal>);

impl Handler for Received {
    fn handle<'a>(&'a self, mut request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            let body = request.read_body().await.unwrap();
            let certificate = request.connection.certificates.first();
            let name = certificate.map(|certificate| {
                Certificate::read(certificate).unwrap().subject().common_name.clone()
            });
            let parts = &request.parts;
            self.requests.lock().unwrap().push(Asked {
                line: format!("{} {} {:?}", parts.method, parts.uri.path(), parts.version),
                who: (request.header(header::AUTHORIZATION).into(), name.unwrap_or_default()),
                body: String::from_utf8(body.to_vec()).unwrap(),
            });
            self.came.notify_waiters();
            let answer = {
                let mut answers = self.answers.lock().unwrap();
                if answers.is_empty() { (200, Vec::new(), None) } else { answers.remove(0) }
            };
            if let Some(wait) = answer.2 {
                wait.wait().await;
            }
            // The body of a redirect is its target.
            let location =
                (answer.0 / 100 == 3).then(|| HeaderValue::from_bytes(&answer.1).unwrap());
            let mut response = Response::new(Body::from(answer.1));
            response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
            *response.status_mut() = StatusCode::from_u16(answer.0).unwrap();
            response
        })
    }
}

impl Receiver {
    fn start() -> Self {
        let authority = Authority::new("test", &kevel_clock::Clock::system()).unwrap();
        let names = AltNames {
            dns_names: vec!["webhook.example".into()],
            ips: vec![Ipv4Addr::LOCALHOST.into()],
            ..AltNames::default()
        };
        let subject = Subject::Server { common_name: "webhook".into(), names };
        let own = authority.issue(&subject).unwrap();
        let roots = CaBundle::parse(authority.pem().as_bytes()).unwrap();
        let roots = vec![Arc::new(Dynamic::fixed(roots))];
        let tls = Tls::from_pem(&TlsOptions::default(), &own.certificate, &own.key, roots);
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let serving = SecureServing {
            clock: kevel_clock::Clock::system(),
            listener: listen(Listen { address, port: 0, share_port: false }).unwrap(),
            tls: Arc::new(tls.unwrap()),
            limits: Limits::default(),
            shutdown_timeout: Duration::ZERO,
            handshake_errors: Arc::default(),
        };
        let (received, stop) = (Received::default(), Signal::new("stop"));
        let served = serve(serving, Arc::new(received.clone()), &stop).unwrap();
        let folder = tempfile::tempdir().unwrap();
        Receiver { served, authority, folder, received, _stop: stop }
    }

    /// Answers with these codes first.
    fn answering(self, codes: &[u16]) -> Self {
        let answers = codes.iter().map(|code| (*code, Vec::new(), None));
        self.received.answers.lock().unwrap().extend(answers);
        self
    }

    fn url(&self) -> String {
        format!("https://{}/events", self.served.address)
    }

    /// Endpoint that trusts the receiver's authority.
    fn endpoint(&self) -> Endpoint {
        let ca = Some(self.authority.pem().as_bytes().to_vec());
        Endpoint { url: self.url(), ca, ..Endpoint::default() }
    }

    fn client_certificate(&self, name: &str) -> Issued {
        let subject = Subject::Client { common_name: name.into(), organizations: Vec::new() };
        self.authority.issue(&subject).unwrap()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn requests(&self) -> Vec<Asked> {
        self.received.requests.lock().unwrap().clone()
    }

    /// Waits until so many requests have come.
    async fn wait_for(&self, count: usize) -> Vec<Asked> {
        let wait = async {
            loop {
                let came = self.received.came.notified();
                if self.requests().len() >= count {
                    return self.requests();
                }
                came.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("they do not come")
    }
}
