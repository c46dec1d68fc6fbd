//! Tests of limits and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::{ETAG, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use kevel_registry::user::User;
use kevel_server::handler::Handler;
use kevel_test_support::until;
use tokio::sync::Notify;

use crate::support::{TestChain, endless, handler, header, read, request, text};

#[tokio::test]
async fn only_so_many_requests_are_served_at_a_time() {
    let (go, arrived) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let mut test = TestChain::default();
    test.config.max_requests_in_flight = 2;
    test.config.max_mutating_requests_in_flight = 1;
    let metrics = test.config.metrics.clone();
    let inner = {
        let (go, arrived) = (go.clone(), arrived.clone());
        handler(move |_| {
            let (go, arrived) = (go.clone(), arrived.clone());
            async move {
                arrived.fetch_add(1, Ordering::SeqCst);
                go.notified().await;
                text("ok")
            }
        })
    };
    let users = test.users.clone();
    let chain = test.build(inner);
    let ask = |line: &'static str| {
        let chain = chain.clone();
        tokio::spawn(async move { chain.handle(request(line)).await })
    };
    let waiting = [
        ask("GET /api/v1/pods"),
        ask("GET /api/v1/nodes"),
        ask("POST /api/v1/nodes"),
        // Long-running requests do not count.
        ask("GET /api/v1/pods?watch=1"),
    ];
    until(async || arrived.load(Ordering::SeqCst) == 4).await;
    for line in ["GET /api/v1/pods", "GET /version", "DELETE /api/v1/nodes/a"] {
        let response = chain.handle(request(line)).await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS, "{line}");
        assert_eq!(header(&response, RETRY_AFTER), "1");
        assert_eq!(read(response).await, "Too many requests, please try again later.\n");
    }
    let shown = metrics.show();
    assert!(shown.contains("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 2\n"));
    assert!(shown.contains("apiserver_current_inflight_requests{request_kind=\"mutating\"} 1\n"));
    users.set(User {
        name: "root".into(),
        groups: vec!["system:masters".into()],
        ..User::default()
    });
    let privileged = ask("GET /api/v1/pods");
    until(async || arrived.load(Ordering::SeqCst) == 5).await;
    go.notify_waiters();
    for served in waiting.into_iter().chain([privileged]) {
        assert_eq!(served.await.unwrap().status(), 200);
    }
    go.notify_one();
    assert_eq!(chain.handle(request("GET /api/v1/pods")).await.status(), 200);
}

#[tokio::test]
async fn metrics_have_labels_of_existing_resources_only() {
    let mut test = TestChain::default();
    test.config.installed = Arc::new(|info| info.resource == "pods");
    let metrics = test.config.metrics.clone();
    let chain = test.build(handler(|request| async move {
        let mut response = text("0123456789");
        response.headers_mut().insert(ETAG, HeaderValue::from_static("x"));
        if request.info.name == "gone" {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        response
    }));
    for line in [
        "GET /api/v1/namespaces/a/pods/b",
        "GET /api/v1/namespaces/a/pods/b",
        "GET /api/v1/namespaces/a/pods/gone",
        "GET /api/v1/namespaces/a/nothings/b",
        "DELETE /api/v1/namespaces/a/pods?dryRun=All",
        "GET /readyz",
        "GET /readyz/made-up",
    ] {
        chain.handle(request(line)).await;
    }
    let shown = read(metrics.handle(request("GET /metrics")).await).await;
    for line in [
        "# HELP apiserver_request_total [STABLE] Served requests, by verb, resource and response code.",
        "# TYPE apiserver_request_total counter",
        r#"apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 2"#,
        r#"apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1"#,
        r#"apiserver_request_total{code="200",component="apiserver",dry_run="All",group="",resource="pods",scope="namespace",subresource="",verb="DELETE",version="v1"} 1"#,
        r#"apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 1"#,
        r#"apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 3"#,
        r#"apiserver_request_duration_seconds_bucket{component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1",le="+Inf"} 3"#,
        r#"apiserver_response_sizes_sum{component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 30"#,
        r#"apiserver_response_sizes_bucket{component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1",le="1e+06"} 3"#,
        r#"authentication_attempts{result="success"} 7"#,
        r#"authorization_attempts_total{result="allowed"} 7"#,
        r#"authenticated_user_requests{username="other"} 7"#,
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\nnot in\n{shown}");
    }
    assert!(!shown.contains("nothings") && !shown.contains("made-up"));
    assert!(shown.contains("\nprocess_resident_memory_bytes "));
}

#[tokio::test]
async fn long_running_requests_are_counted_while_they_last() {
    let mut test = TestChain::default();
    test.config.installed = Arc::new(|_| true);
    let metrics = test.config.metrics.clone();
    let chain = test.build(handler(|_| async { endless("event") }));
    let watch = chain.handle(request("GET /api/v1/pods?watch=1")).await;
    let gauge = |value: u32| {
        format!(
            "apiserver_longrunning_requests{{component=\"apiserver\",group=\"\",resource=\"pods\",\
             scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"}} {value}\n"
        )
    };
    assert!(metrics.show().contains(&gauge(1)));
    drop(watch);
    assert!(metrics.show().contains(&gauge(0)));
}
