//! Who is asked when.

use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;

use crate::support::{Log, TestChain, handler, logged, request};

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
            "audit begins for jane",
            "audit RequestReceived",
            "authorize jane impersonate-on:user-info:list",
            "authorize jane impersonate:user-info",
            "audit impersonates joe by impersonate:user-info",
            "authorize joe list",
            "audit authorization.k8s.io/decision=allow",
            "audit authorization.k8s.io/reason=",
            "handle",
            "audit ResponseComplete 200 ",
        ]
    );
    // A watch has a beginning, too; a panic has neither beginning nor end.
    chain.handle(request("GET /api/v1/pods?watch=1")).await;
    let stages = log.take();
    assert!(stages.ends_with(&[
        "audit ResponseStarted 200 ".to_owned(),
        "audit ResponseComplete 200 ".to_owned(),
    ]));
    chain.handle(request("GET /panic")).await;
    assert_eq!(log.take().last().unwrap(), "audit Panic 500 APIServer panic'd: on request");
    // Those who are refused before their turn.
    chain.handle(request("GET /api/v1/pods?timeout=x")).await;
    let stages = log.take();
    assert_eq!(stages.len(), 2);
    assert!(stages[1].starts_with("audit ResponseStarted 400 invalid timeout"));
    let mut unknown = request("GET /api/v1/pods");
    unknown.parts.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer wrong"));
    chain.handle(unknown).await;
    let expected = "audit ResponseStarted 401 Authentication failed, attempted: bearer";
    assert_eq!(log.take().last().unwrap(), expected);
}

#[tokio::test]
async fn a_client_that_goes_away_is_audited() {
    let log = Log::default();
    let chain = TestChain::logging(&log).build(handler(|_| std::future::pending()));
    let asked = tokio::time::timeout(Duration::ZERO, chain.handle(request("GET /x"))).await;
    assert!(asked.is_err());
    assert_eq!(log.take().last().unwrap(), "audit ResponseComplete 200 Connection closed early");
}
