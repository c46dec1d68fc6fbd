//! Tests of auditing in the chain.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use kevel_component::future::Pending;
use kevel_registry::audit::AuditEvent as _;
use kevel_server::audit::{AuditMetrics, Auditor, Backend, Event, Policy, Stage};
use kevel_server::body::{Body, Piece, Pieces};
use kevel_server::handler::{Handler, Response};

use crate::support::{TestChain, handler, read, request, text};

/// Backend that keeps events for a test.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Arc<Event>>>>);

impl Backend for Kept {
    fn name(&self) -> String {
        "kept".to_owned()
    }

    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> Pending<'a, bool> {
        self.0.lock().unwrap().extend_from_slice(events);
        Box::pin(std::future::ready(true))
    }
}

impl Kept {
    /// The last event, which must exist.
    fn last(&self) -> Arc<Event> {
        let last = self.0.lock().unwrap().pop().unwrap();
        assert_eq!(last.stage, Stage::ResponseComplete);
        last
    }

    fn before(&self, level: &str, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
        let policy =
            format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{{level: {level}}}]}}");
        let policy = Policy::parse(policy.as_bytes()).unwrap();
        let mut test = TestChain::default();
        let auditor = Auditor::new(
            policy,
            Box::new(self.clone()),
            AuditMetrics::new(&test.config.metrics),
            kevel_clock::Clock::system(),
        );
        test.config.audit = Some(Arc::new(auditor));
        test.build(handler)
    }
}

/// A body in two pieces.
struct Halves(Vec<Vec<u8>>);

impl Pieces for Halves {
    fn poll_piece(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Piece>> {
        std::task::Poll::Ready(self.0.pop().map(|half| Ok(half.into())))
    }
}

fn halves(body: &[u8]) -> Body {
    let (first, second) = body.split_at(body.len() / 2);
    Body::pieces(Halves(vec![second.to_vec(), first.to_vec()]))
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(body).unwrap();
    gzip.finish().unwrap()
}

const LIST: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#;

#[tokio::test]
async fn an_answer_is_kept_however_it_is_sent() {
    type Make = fn(&mut HeaderMap) -> Body;
    let ways: [(Make, &str); 4] = [
        (|_| Body::from(LIST), LIST),
        (|_| halves(LIST.as_bytes()), LIST),
        (
            |headers| {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                halves(&gzipped(LIST.as_bytes()))
            },
            LIST,
        ),
        (|_| Body::from(r#"{"major":"1"}"#), ""),
    ];
    for (make, expected) in ways {
        for (level, expected) in [("RequestResponse", expected), ("Request", "")] {
            let kept = Kept::default();
            let chain = kept.before(
                level,
                handler(move |_| async move {
                    let mut headers = HeaderMap::new();
                    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                    let mut response = Response::new(make(&mut headers));
                    *response.headers_mut() = headers;
                    response
                }),
            );
            let response = chain.handle(request("GET /api/v1/pods")).await;
            http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
            let event = kept.last();
            let object = event.response_object.as_deref().unwrap_or_default();
            assert_eq!(String::from_utf8_lossy(object), expected, "{level}");
            assert_eq!(event.response_status.as_ref().unwrap().code, 200);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_kept_as_that() {
    let kept = Kept::default();
    let chain = kept.before("Metadata", handler(|_| std::future::pending()));
    let mut asked = request("GET /api/v1/pods?timeout=1ms");
    asked.received.started -= std::time::Duration::from_secs(1);
    assert_eq!(chain.handle(asked).await.status(), 504);
    let event = kept.last();
    let status =
        String::from_utf8_lossy(event.response_status.as_ref().unwrap().json()).into_owned();
    assert!(
        status.contains(r#""reason":"Timeout""#) && status.contains(r#""code":504"#),
        "{status}"
    );
    assert!(event.annotations.contains_key("apiserver.latency.k8s.io/total"));
}

#[tokio::test]
async fn annotations_come_from_anywhere_and_tokens_go_nowhere() {
    let kept = Kept::default();
    let chain = kept.before(
        "RequestResponse",
        handler(|request| async move {
            request.audit.annotate("policy.example/decision", "first");
            request.audit.annotate("policy.example/decision", "second");
            text("ok")
        }),
    );
    let mut asked = request("GET /x?access_token=hunter2&a=b");
    let headers = &mut asked.parts.headers;
    headers.insert(http::header::AUTHORIZATION, HeaderValue::from_static("Bearer hunter2"));
    headers.insert(http::header::USER_AGENT, HeaderValue::from_str(&"x".repeat(1025)).unwrap());
    read(chain.handle(asked).await).await;
    let event = kept.last();
    assert_eq!(event.annotations["policy.example/decision"], "first");
    assert_eq!(event.request_uri, "/x?access_token=...&a=b");
    assert_eq!(event.user_agent, format!("{}...TRUNCATED", "x".repeat(1024)));
    assert!(!String::from_utf8(event.to_json()).unwrap().contains("hunter2"));
}
