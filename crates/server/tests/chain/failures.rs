//! Tests of panics and deadlines.

use std::time::Duration;

use http::StatusCode;
use http::header::CACHE_CONTROL;
use kevel_server::body::Broken;
use kevel_server::handler::Abort;

use crate::support::{
    TestChain, answer, endless, handler, header, read, read_to_end, request, streamed, text,
};

#[tokio::test]
async fn a_panic_is_answered_and_the_server_lives() {
    let chain = TestChain::default().build(handler(|request| {
        if request.info.path == "/now" {
            panic!("before any future");
        }
        async move {
            tokio::task::yield_now().await;
            assert_ne!(request.info.path, "/later", "after a while");
            text("fine")
        }
    }));
    for (path, code, expected) in [
        ("/now", 500, "This request caused apiserver to panic. Look in the logs for details.\n"),
        ("/later", 500, "This request caused apiserver to panic. Look in the logs for details.\n"),
        ("/else", 200, "fine"),
    ] {
        let response = chain.handle(request(&format!("GET {path}"))).await;
        assert_eq!(response.status().as_u16(), code);
        assert_eq!(header(&response, CACHE_CONTROL), "no-cache, private");
        assert_eq!(header(&response, "audit-id").len(), 36);
        assert_eq!(read(response).await, expected);
    }
}

#[tokio::test]
async fn a_panic_in_a_body_breaks_it_off() {
    let pieces = [Some("a"), Some("b"), None];
    let chain =
        TestChain::default().build(handler(move |_| async move { streamed(pieces.to_vec()) }));
    let response = chain.handle(request("GET /api/v1/pods")).await;
    assert_eq!(read_to_end(response).await, ("ab".to_owned(), Some(Broken("panicked"))));
}

#[tokio::test]
async fn aborted_request_closes_its_connection() {
    let chain = TestChain::default()
        .build(handler(|_| async { std::panic::resume_unwind(Box::new(Abort)) }));
    let response = chain.handle(request("GET /x")).await;
    assert_eq!(response.extensions().get(), Some(&Abort));
}

#[tokio::test(start_paused = true)]
async fn a_request_has_a_deadline() {
    for (line, expected) in [
        ("GET /api/v1/pods", Some(60)),
        ("GET /api/v1/pods?timeout=5s", Some(5)),
        ("GET /api/v1/pods?timeout=0", Some(60)),
        ("GET /api/v1/pods?timeout=-1s", Some(60)),
        ("GET /api/v1/pods?timeout=2m", Some(60)),
        ("GET /api/v1/pods?timeout=", Some(60)),
        ("GET /api/v1/pods?watch=1&timeout=x", None),
        ("GET /api/v1/namespaces/a/pods/b/log", None),
    ] {
        let chain = TestChain::default().build(handler(|request| async move {
            let left = request.deadline.map(|at| at.duration_since(request.received.started));
            text(format!("{:?}", left.map(|left| left.as_secs())))
        }));
        assert_eq!(
            read(chain.handle(request(line)).await).await,
            format!("{expected:?}"),
            "{line}"
        );
    }
    let chain = TestChain::default().build(answer("ok"));
    let response = chain.handle(request("GET /api/v1/pods?timeout=soon")).await;
    assert_eq!(response.status(), 400);
    assert!(read(response).await.contains(
        r#""message":"invalid timeout specified in the request URL - time: invalid duration \"soon\"","reason":"BadRequest""#
    ));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_answered() {
    let chain = TestChain::default().build(handler(|_| std::future::pending()));
    let response = chain.handle(request("GET /api/v1/pods?timeout=3s")).await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(
        read(response).await,
        "{\"metadata\":{},\"status\":\"Failure\",\
         \"message\":\"Timeout: request did not complete within the allotted timeout\",\
         \"reason\":\"Timeout\",\"details\":{},\"code\":504}\n"
    );
}

#[tokio::test(start_paused = true)]
async fn unread_response_times_out_but_a_watch_does_not() {
    for (line, ends) in [("GET /api/v1/pods", true), ("GET /api/v1/pods?watch=1", false)] {
        let chain = TestChain::default().build(handler(|_| async { endless("piece") }));
        let response = chain.handle(request(line)).await;
        let read = tokio::time::timeout(Duration::from_secs(3600), read_to_end(response)).await;
        let late = Broken("the answer took too long");
        assert_eq!(read.ok(), ends.then(|| ("piece".to_owned(), Some(late))), "{line}");
    }
}
