//! Tests of start and shutdown.

use std::time::Duration;

use http::header::{CONNECTION, RETRY_AFTER, STRICT_TRANSPORT_SECURITY};
use http::{HeaderValue, StatusCode};
use kevel_server::chain::MuxAndDiscoveryIncomplete;

use crate::support::{TestChain, answer, endless, handler, header, read, request, streamed, text};

#[tokio::test]
async fn requests_that_come_before_all_paths_are_installed_are_marked() {
    let test = TestChain::default();
    let signal = test.lifecycle.signals.mux_and_discovery_complete.clone();
    let chain = test.build(handler(|request| async move {
        let early = request.parts.extensions.get::<MuxAndDiscoveryIncomplete>().is_some();
        text(if early { "early" } else { "in time" })
    }));
    assert_eq!(read(chain.handle(request("GET /x")).await).await, "early");
    signal.signal();
    assert_eq!(read(chain.handle(request("GET /x")).await).await, "in time");
}

#[tokio::test]
async fn a_stopping_server_sends_clients_away_but_answers_probes() {
    let mut test = TestChain::default();
    test.config.send_retry_after = true;
    test.config.hsts_directives = vec!["max-age=1".into()];
    let signal = test.lifecycle.signals.not_accepting_new_request.clone();
    let chain = test.build(answer("ok"));
    assert_eq!(chain.handle(request("GET /api/v1/pods")).await.status(), 200);
    signal.signal();
    for (line, agent, code) in [
        ("GET /api/v1/pods", "kubectl", 429),
        ("GET /api/v1/pods?watch=1", "kubectl", 429),
        ("GET /api/v1/pods", "kube-apiserver/v1.36", 200),
        ("GET /readyz/ping", "kube-probe", 200),
        ("GET /livez", "kube-probe", 200),
        ("GET /metrics", "prometheus", 200),
    ] {
        let mut asked = request(line);
        asked.parts.headers.insert("user-agent", HeaderValue::from_static(agent));
        let response = chain.handle(asked).await;
        assert_eq!(response.status().as_u16(), code, "{line} by {agent}");
        if code == 429 {
            assert_eq!(header(&response, RETRY_AFTER), "5");
            assert_eq!(header(&response, CONNECTION), "close");
            assert_eq!(header(&response, STRICT_TRANSPORT_SECURITY), "");
            let message = "The apiserver is shutting down, please try again later.\n";
            assert_eq!(read(response).await, message);
        }
    }
}

#[tokio::test]
async fn draining_server_refuses_new_requests() {
    let test = TestChain::default();
    let requests = test.lifecycle.requests.clone();
    let chain = test.build(answer("ok"));
    assert_eq!(requests.drain(Duration::ZERO).await, 0);
    let response = chain.handle(request("GET /api/v1/pods")).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(header(&response, RETRY_AFTER), "1");
    assert_eq!(
        read(response).await,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
         \"message\":\"apiserver is shutting down\",\"reason\":\"ServiceUnavailable\",\"code\":503}\n"
    );
    assert_eq!(chain.handle(request("GET /readyz")).await.status(), 200);
}

#[tokio::test]
async fn shutdown_waits_until_response_bodies_are_sent() {
    let test = TestChain::default();
    let requests = test.lifecycle.requests.clone();
    let chain = test.build(handler(|_| async { streamed(vec![Some("a"), Some("b")]) }));
    let response = chain.handle(request("GET /api/v1/pods")).await;
    assert_eq!(requests.count(), 1);
    assert_eq!(read(response).await, "ab");
    assert_eq!(requests.count(), 0);
    drop(chain.handle(request("GET /api/v1/pods")).await);
    assert_eq!(requests.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_cleanly_when_the_server_stops() {
    let test = TestChain::default();
    let watches = test.lifecycle.watches.clone();
    let chain = test.build(handler(|_| async { endless("event") }));
    let watch = chain.handle(request("GET /api/v1/pods?watch=1")).await;
    assert_eq!(watches.count(), 1);
    let reader = tokio::spawn(read(watch));
    assert_eq!(watches.drain_evenly(Duration::from_secs(10)).await, 0);
    assert_eq!(reader.await.unwrap(), "event");
    let refused = chain.handle(request("GET /api/v1/pods?watch=1")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
}
