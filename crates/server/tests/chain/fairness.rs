//! Tests of priority and fairness.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use http::header::RETRY_AFTER;
use kevel_flowcontrol::WorkEstimator;
use kevel_registry::user::User;
use kevel_server::flowcontrol::FlowControl;
use kevel_server::handler::{Handler, Response};
use kevel_test_support::{soon, until};
use tokio::sync::Notify;

use crate::support::{TestChain, Users, endless, handler, header, read, request, text};

/// A server with one seat for all but administrators; requests for `/wait` keep it.
struct OneSeat {
    chain: Arc<dyn Handler>,
    users: Users,
    go: Arc<Notify>,
    waiting: Arc<AtomicUsize>,
}

impl OneSeat {
    fn new() -> Self {
        let (go, waiting) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let mut test = TestChain::default();
        let metrics = &test.config.metrics;
        test.config.flow_control = Some(FlowControl::new(1, WorkEstimator::default(), metrics));
        let inner = {
            let (go, waiting) = (go.clone(), waiting.clone());
            handler(move |request| {
                let (go, waiting) = (go.clone(), waiting.clone());
                async move {
                    if request.info.path == "/wait" {
                        waiting.fetch_add(1, Ordering::SeqCst);
                        go.notified().await;
                    }
                    match request.info.verb.as_str() {
                        "watch" => endless("{}\n"),
                        _ => text("ok"),
                    }
                }
            })
        };
        let users = test.users.clone();
        OneSeat { chain: test.build(inner), users, go, waiting }
    }

    async fn ask(&self, line: &str) -> Response {
        self.chain.handle(request(line)).await
    }

    /// Takes the seat until `go`.
    async fn taken(&self) -> tokio::task::JoinHandle<StatusCode> {
        let chain = self.chain.clone();
        let asked = tokio::spawn(async move { chain.handle(request("GET /wait")).await.status() });
        until(async || self.waiting.load(Ordering::SeqCst) == 1).await;
        asked
    }
}

#[tokio::test]
async fn requests_without_a_seat_are_refused_unless_they_are_exempt() {
    let one_seat = OneSeat::new();
    let first = one_seat.taken().await;
    for line in ["GET /version", "DELETE /api/v1/nodes/a", "GET /api/v1/pods?watch=1"] {
        let response = one_seat.ask(line).await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS, "{line}");
        assert_eq!(header(&response, RETRY_AFTER), "1");
        // The catch-all flow schema is not stored here and has no UID.
        assert_eq!(header(&response, "x-kubernetes-pf-flowschema-uid"), "");
        assert!(response.headers().contains_key("x-kubernetes-pf-prioritylevel-uid"));
        assert_eq!(read(response).await, "Too many requests, please try again later.\n");
    }
    // Long-running requests take no seat.
    let exec = one_seat.ask("POST /api/v1/namespaces/a/pods/b/exec").await;
    assert_eq!(exec.status(), StatusCode::OK);
    assert!(!exec.headers().contains_key("x-kubernetes-pf-flowschema-uid"));
    one_seat.users.set(User {
        name: "root".into(),
        groups: vec!["system:masters".into()],
        ..User::default()
    });
    assert_eq!(one_seat.ask("GET /version").await.status(), StatusCode::OK);
    one_seat.go.notify_one();
    assert_eq!(soon(first).await.unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn seats_come_back_whatever_becomes_of_a_request() {
    let one_seat = OneSeat::new();
    // The client disconnects.
    let asked = one_seat.taken().await;
    asked.abort();
    until(async || one_seat.ask("GET /version").await.status() == StatusCode::OK).await;
    // A watch whose handler does not take the seats.
    let watch = one_seat.ask("GET /api/v1/pods?watch=1").await;
    assert_eq!(watch.status(), StatusCode::OK);
    assert_eq!(one_seat.ask("GET /version").await.status(), StatusCode::OK);
    drop(watch);
}
