//! Tests of the order of filters.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;

use crate::support::{Log, TestChain, handler, logged, read, request};

#[tokio::test]
async fn filters_stand_in_the_order_of_the_reference() {
    let log = Log::default();
    let chain = TestChain::logging(&log).build(logged(&log));
    let mut asked = request("GET /api/v1/pods");
    asked.parts.headers.insert("impersonate-user", HeaderValue::from_static("joe"));
    chain.handle(asked).await;
    assert_eq!(
        log.take(),
        [
            "authenticate",
            "audit RequestReceived jane  ",
            "authorize jane impersonate-on:user-info:list",
            "authorize jane impersonate:user-info",
            "authorize joe list",
            "handle",
            "audit ResponseComplete jane joe {\"metadata\":{},\"code\":200}",
            "audit authorization.k8s.io/decision=allow",
            "audit authorization.k8s.io/reason=",
        ]
    );
    let audited = |log: &Log| {
        let lines = log.take();
        let stages = lines.into_iter().filter_map(|line| {
            let line = line.strip_prefix("audit ")?.to_owned();
            line.contains('{').then_some(line)
        });
        stages.collect::<Vec<_>>()
    };
    let ok = r#"jane  {"metadata":{},"code":200}"#;
    // A watch also has ResponseStarted; a panic has neither ResponseStarted nor ResponseComplete.
    chain.handle(request("GET /api/v1/pods?watch=1")).await;
    let stages = ["ResponseStarted", "ResponseComplete"].map(|stage| format!("{stage} {ok}"));
    assert_eq!(audited(&log), stages);
    chain.handle(request("GET /panic")).await;
    assert_eq!(
        audited(&log),
        [
            "Panic jane  {\"metadata\":{},\"status\":\"Failure\",\"message\":\"APIServer panic'd: on \
          request\",\"reason\":\"InternalError\",\"code\":500}"
        ]
    );
    // Requests refused before the audit filter.
    chain.handle(request("GET /api/v1/pods?timeout=x")).await;
    let [stage] = &audited(&log)[..] else { panic!() };
    let refused = "ResponseStarted nobody  {\"metadata\":{},\"status\":\"Failure\",\"message\":\"invalid timeout";
    assert!(stage.starts_with(refused), "{stage}");
    let mut unknown = request("GET /api/v1/pods");
    unknown.parts.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer wrong"));
    chain.handle(unknown).await;
    assert_eq!(
        audited(&log),
        ["ResponseStarted nobody  {\"metadata\":{},\"status\":\"Failure\",\"message\":\
          \"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}"]
    );
}

#[tokio::test]
async fn a_client_that_goes_away_is_audited() {
    let log = Log::default();
    let chain = TestChain::logging(&log).build(handler(|_| std::future::pending()));
    let asked = tokio::time::timeout(Duration::ZERO, chain.handle(request("GET /x"))).await;
    assert!(asked.is_err());
    let expected = "audit ResponseComplete jane  {\"metadata\":{},\"status\":\"Success\",\
                    \"message\":\"Connection closed early\",\"code\":200}";
    assert!(log.take().iter().any(|line| line == expected));
}

#[tokio::test]
async fn a_request_whose_event_cannot_be_kept_is_refused() {
    let log = Log(Arc::default(), true);
    let response = TestChain::logging(&log).build(logged(&log)).handle(request("GET /x")).await;
    assert_eq!(response.status(), 500);
    assert_eq!(
        read(response).await,
        "Internal Server Error: \"/x\": failed to store audit event\n"
    );
    assert_eq!(log.take(), ["authenticate", "audit RequestReceived jane  "]);
}
