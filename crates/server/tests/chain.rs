//! The handler chain, as requests meet it: built in full, before a small handler.

mod chain_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chain_support::{Log, Rules, TestChain, answer, handler, header, read, request, text};
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CACHE_CONTROL, CONNECTION, ETAG, RETRY_AFTER,
    STRICT_TRANSPORT_SECURITY, WARNING,
};
use http::{HeaderValue, StatusCode, Version};
use kevel_server::chain::{Abort, MuxAndDiscoveryIncomplete, TraceContext, cors_origins};
use kevel_server::handler::Handler;
use kevel_server::user::User;
use tokio::sync::Notify;

#[tokio::test]
async fn every_answer_has_an_audit_id_and_forbids_caches() {
    let chain = TestChain::default().build(answer("ok"));
    let response = chain.handle(request("GET /api/v1/pods")).await;
    assert_eq!(header(&response, "audit-id").len(), 36);
    assert_eq!(header(&response, CACHE_CONTROL), "no-cache, private");

    let mut asked = request("GET /api/v1/pods");
    asked.parts.headers.insert("Audit-ID", HeaderValue::from_static("mine"));
    assert_eq!(header(&chain.handle(asked).await, "audit-id"), "mine");

    let chain = TestChain::default().build(handler(|_| async {
        let mut response = text("cached");
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        response
    }));
    let response = chain.handle(request("GET /openapi/v2")).await;
    assert_eq!(header(&response, CACHE_CONTROL), "public");
}

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
async fn a_panic_in_a_body_ends_it() {
    let pieces = [Some("a"), Some("b"), None];
    let chain = TestChain::default()
        .build(handler(move |_| async move { chain_support::streamed(pieces.to_vec()) }));
    let response = chain.handle(request("GET /api/v1/pods")).await;
    assert_eq!(read(response).await, "ab");
}

#[tokio::test]
async fn an_aborted_request_is_marked_for_the_connection_to_be_cut() {
    let chain = TestChain::default()
        .build(handler(|_| async { std::panic::resume_unwind(Box::new(Abort)) }));
    let response = chain.handle(request("GET /x")).await;
    assert_eq!(response.extensions().get(), Some(&Abort));
}

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
async fn a_draining_server_refuses_what_it_would_have_to_wait_for() {
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
async fn a_request_is_waited_for_until_its_body_has_been_sent() {
    let test = TestChain::default();
    let requests = test.lifecycle.requests.clone();
    let chain =
        test.build(handler(|_| async { chain_support::streamed(vec![Some("a"), Some("b")]) }));
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
    let chain = test.build(handler(|_| async { chain_support::endless("event") }));
    let watch = chain.handle(request("GET /api/v1/pods?watch=1")).await;
    assert_eq!(watches.count(), 1);
    let reader = tokio::spawn(read(watch));
    assert_eq!(watches.drain_evenly(Duration::from_secs(10)).await, 0);
    assert_eq!(reader.await.unwrap(), "event");
    let refused = chain.handle(request("GET /api/v1/pods?watch=1")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn hsts_is_said_if_asked_for() {
    let mut test = TestChain::default();
    test.config.hsts_directives = vec!["max-age=31536000".into(), "preload".into()];
    let response = test.build(answer("ok")).handle(request("GET /x")).await;
    assert_eq!(header(&response, STRICT_TRANSPORT_SECURITY), "max-age=31536000; preload");
}

#[tokio::test]
async fn some_http2_connections_are_sent_away() {
    for (chance, version, expected) in
        [(1.0, Version::HTTP_2, "close"), (1.0, Version::HTTP_11, ""), (0.0, Version::HTTP_2, "")]
    {
        let mut test = TestChain::default();
        test.config.goaway_chance = chance;
        let chain = test.build(answer("ok"));
        let mut asked = request("GET /x");
        asked.parts.version = version;
        assert_eq!(header(&chain.handle(asked).await, CONNECTION), expected);
    }
    let mut test = TestChain::default();
    test.config.goaway_chance = 0.02;
    let chain = test.build(answer("ok"));
    let mut closed = 0;
    for _ in 0..5000 {
        let mut asked = request("GET /x");
        asked.parts.version = Version::HTTP_2;
        closed += usize::from(!header(&chain.handle(asked).await, CONNECTION).is_empty());
    }
    assert!((40..200).contains(&closed), "{closed} of 5000, expected about 100");
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
    assert_eq!(
        read(response).await,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
         \"message\":\"Timeout: request did not complete within the allotted timeout\",\
         \"reason\":\"Timeout\",\"details\":{},\"code\":504}\n"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_in_time_breaks_off_but_a_watch_goes_on() {
    for (line, ends) in [("GET /api/v1/pods", true), ("GET /api/v1/pods?watch=1", false)] {
        let chain =
            TestChain::default().build(handler(|_| async { chain_support::endless("piece") }));
        let response = chain.handle(request(line)).await;
        let read = tokio::time::timeout(Duration::from_secs(3600), read(response)).await;
        assert_eq!(read.is_ok(), ends, "{line}");
    }
}

#[tokio::test]
async fn warnings_are_said_once() {
    let chain = TestChain::default().build(handler(|request| async move {
        request.warnings.add("v1 Endpoints is \"old\"");
        request.warnings.add("v1 Endpoints is \"old\"");
        request.warnings.add("other");
        text("ok")
    }));
    let response = chain.handle(request("GET /api/v1/endpoints")).await;
    let warnings: Vec<_> = response.headers().get_all(WARNING).iter().collect();
    assert_eq!(warnings, [r#"299 - "v1 Endpoints is \"old\"""#, r#"299 - "other""#]);
}

#[tokio::test]
async fn pages_of_allowed_origins_may_ask() {
    let chain = || {
        let mut test = TestChain::default();
        let patterns = ["//example\\.com(:|$)".to_owned()];
        test.config.cors_allowed_origins = cors_origins(&patterns).unwrap();
        test.build(answer("ok"))
    };
    for (line, origin, code, allowed) in [
        ("GET /api/v1/pods", "https://example.com", 200, "https://example.com"),
        ("OPTIONS /api/v1/pods", "https://example.com:8443", 204, "https://example.com:8443"),
        ("OPTIONS /api/v1/pods", "https://example.com.evil", 200, ""),
        ("GET /api/v1/pods", "", 200, ""),
    ] {
        let mut asked = request(line);
        asked.parts.headers.insert("origin", HeaderValue::from_str(origin).unwrap());
        let response = chain().handle(asked).await;
        assert_eq!(response.status().as_u16(), code, "{line} {origin}");
        assert_eq!(header(&response, ACCESS_CONTROL_ALLOW_ORIGIN), allowed);
        let methods = header(&response, "access-control-allow-methods");
        let all = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
        assert_eq!(methods, if allowed.is_empty() { "" } else { all });
    }
    let error = cors_origins(&["(".to_owned()]).unwrap_err();
    assert!(
        error.starts_with(
            "Invalid CORS allowed origin, --cors-allowed-origins flag was set to ( - "
        )
    );
}

const UNAUTHORIZED: &str = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\
    \"status\":\"Failure\",\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n";

#[tokio::test]
async fn users_are_known_by_their_tokens() {
    let who = || {
        handler(|request| async move {
            let user = request.user.clone().unwrap();
            let hidden = ["authorization", "x-remote-user", "x-remote-extra-a"];
            assert!(hidden.iter().all(|name| !request.parts.headers.contains_key(*name)));
            text(format!("{} {}", user.name, user.groups.join(",")))
        })
    };
    let closed = |anonymous: bool| TestChain::with_tokens("abc,jane,1,\"dev,ops\"", anonymous);
    for (anonymous, authorization, version, code, expected, connection) in [
        (false, "", Version::HTTP_11, 401, UNAUTHORIZED, ""),
        (false, "", Version::HTTP_2, 401, UNAUTHORIZED, "close"),
        (true, "", Version::HTTP_11, 200, "system:anonymous system:unauthenticated", ""),
        (true, "", Version::HTTP_2, 200, "system:anonymous system:unauthenticated", "close"),
        (true, "Bearer abc", Version::HTTP_2, 200, "jane dev,ops,system:authenticated", ""),
        (false, "bearer abc", Version::HTTP_11, 200, "jane dev,ops,system:authenticated", ""),
        (true, "Bearer wrong", Version::HTTP_11, 401, UNAUTHORIZED, ""),
        (true, "Basic abc", Version::HTTP_11, 200, "system:anonymous system:unauthenticated", ""),
    ] {
        let mut asked = request("GET /api/v1/pods");
        asked.parts.version = version;
        let headers = &mut asked.parts.headers;
        headers.insert(AUTHORIZATION, HeaderValue::from_static(authorization));
        headers.insert("x-remote-user", HeaderValue::from_static("root"));
        headers.insert("x-remote-extra-a", HeaderValue::from_static("b"));
        let response = closed(anonymous).build(who()).handle(asked).await;
        assert_eq!(response.status().as_u16(), code, "{authorization}");
        assert_eq!(header(&response, CONNECTION), connection, "{authorization}");
        assert_eq!(read(response).await, expected, "{authorization}");
    }
}

#[tokio::test]
async fn a_space_before_a_token_is_warned_of() {
    let mut asked = request("GET /x");
    asked.parts.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer  abc"));
    let response =
        TestChain::with_tokens("abc,jane,1", false).build(answer("")).handle(asked).await;
    assert_eq!(response.status(), 401);
    assert_eq!(
        header(&response, WARNING),
        "299 - \"the provided Authorization header contains extra space before the bearer token, \
         and is ignored\""
    );
}

#[tokio::test]
async fn users_are_known_by_their_certificates() {
    let mut test = TestChain::default();
    test.config.authenticator = chain_support::by_certificate();
    let chain = test.build(handler(|request| async move {
        let user = request.user.clone().unwrap();
        text(format!("{} {} {:?}", user.name, user.groups.join(","), user.extra))
    }));
    for (certificates, code, expected) in [
        (&[][..], 401, UNAUTHORIZED),
        (&["wrong"], 401, UNAUTHORIZED),
        (&["nameless"], 401, UNAUTHORIZED),
        (
            &["jane", "issuer"],
            200,
            "jane dev,system:authenticated [(\"authentication.kubernetes.io/credential-id\", \
             [\"X509SHA256=00\"])]",
        ),
    ] {
        let mut asked = request("GET /x");
        let certificates = certificates.iter().map(|&text| Bytes::from_static(text.as_bytes()));
        asked.connection = Arc::new(kevel_server::request::Connection {
            peer: None,
            certificates: certificates.collect(),
        });
        let response = chain.handle(asked).await;
        assert_eq!(response.status().as_u16(), code);
        assert_eq!(read(response).await, expected);
    }
}

#[tokio::test]
async fn a_trace_goes_on() {
    let chain = TestChain::default().build(handler(|request| async move {
        let context = request.parts.extensions.get::<TraceContext>().cloned();
        text(context.map_or(String::new(), |context| {
            context.parent.to_str().unwrap_or_default().to_owned()
        }))
    }));
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (given, expected) in [(parent, parent), ("rubbish", "")] {
        let mut asked = request("GET /x");
        asked.parts.headers.insert("traceparent", HeaderValue::from_static(given));
        assert_eq!(read(chain.handle(asked).await).await, expected);
    }
}

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
        // Long-running ones do not count.
        ask("GET /api/v1/pods?watch=1"),
    ];
    while arrived.load(Ordering::SeqCst) < 4 {
        tokio::task::yield_now().await;
    }
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
    while arrived.load(Ordering::SeqCst) < 5 {
        tokio::task::yield_now().await;
    }
    go.notify_waiters();
    for served in waiting.into_iter().chain([privileged]) {
        assert_eq!(served.await.unwrap().status(), 200);
    }
    go.notify_one();
    assert_eq!(chain.handle(request("GET /api/v1/pods")).await.status(), 200);
}

#[tokio::test]
async fn who_may_not_is_told_so() {
    let jane = || TestChain::allowing(Rules::new(&["get pods", "get /version"]));
    for (line, code, expected) in [
        ("GET /api/v1/namespaces/a/pods/b", 200, "ok"),
        ("GET /version", 200, "ok"),
        (
            "GET /api/v1/namespaces",
            403,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
             \"message\":\"namespaces is forbidden: User \\\"jane\\\" cannot list resource \
             \\\"namespaces\\\" in API group \\\"\\\" at the cluster scope\",\
             \"reason\":\"Forbidden\",\"details\":{\"kind\":\"namespaces\"},\"code\":403}\n",
        ),
        (
            "GET /metrics",
            403,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
             \"message\":\"forbidden: User \\\"jane\\\" cannot get path \\\"/metrics\\\"\",\
             \"reason\":\"Forbidden\",\"details\":{},\"code\":403}\n",
        ),
        ("GET /fail?a&b", 500, "Internal Server Error: \"/fail?a&amp;b\": no lister\n"),
    ] {
        let response = jane().build(answer("ok")).handle(request(line)).await;
        assert_eq!(response.status().as_u16(), code, "{line}");
        if code != 200 {
            assert_eq!(header(&response, "x-content-type-options"), "nosniff");
        }
        assert_eq!(read(response).await, expected, "{line}");
    }
}

#[tokio::test]
async fn a_user_who_may_speaks_for_another() {
    const LIST: &str = "GET /api/v1/namespaces/a/pods";
    for (rules, headers, code, expected) in [
        // Without the permission to, the narrowest way's refusal is told.
        (
            &["list pods"][..],
            &[("impersonate-user", "joe")][..],
            403,
            r#"pods is forbidden: User "jane" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "a""#,
        ),
        (
            &["impersonate users", "list pods"],
            &[("impersonate-user", "joe")],
            200,
            "joe|system:authenticated|",
        ),
        (
            &["impersonate users", "impersonate groups", "list pods"],
            &[
                ("impersonate-user", "joe"),
                ("impersonate-group", "dev"),
                ("impersonate-group", "ops"),
            ],
            200,
            "joe|dev,ops,system:authenticated|",
        ),
        (
            &["impersonate users", "impersonate userextras/a", "impersonate uids", "list pods"],
            &[("impersonate-user", "joe"), ("impersonate-extra-a", "b"), ("impersonate-uid", "7")],
            200,
            "joe|system:authenticated|7[(\"a\", [\"b\"])]",
        ),
        (
            &["impersonate users", "list pods"],
            &[("impersonate-user", "system:anonymous")],
            200,
            "system:anonymous|system:unauthenticated|",
        ),
        (
            &["impersonate serviceaccounts", "list pods"],
            &[("impersonate-user", "system:serviceaccount:a:b")],
            200,
            "system:serviceaccount:a:b|system:serviceaccounts,system:serviceaccounts:a,system:authenticated|",
        ),
        // The constrained ways: both what is done and who it is done as.
        (
            &["impersonate-on:user-info:list pods", "impersonate:user-info users", "list pods"],
            &[("impersonate-user", "joe")],
            200,
            "joe|system:authenticated|",
        ),
        (
            &["impersonate-on:user-info:list pods", "list pods"],
            &[("impersonate-user", "joe")],
            403,
            r#"users.authentication.k8s.io "joe" is forbidden: User "jane" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
        (
            &["impersonate-on:user-info:list pods", "impersonate:user-info users", "list pods"],
            &[("impersonate-user", "joe"), ("impersonate-group", "system:masters")],
            403,
            r#"groups.authentication.k8s.io "system:masters" is forbidden: User "jane" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed"#,
        ),
        (
            &[
                "impersonate-on:arbitrary-node:list pods",
                "impersonate:arbitrary-node nodes",
                "list pods",
            ],
            &[("impersonate-user", "system:node:n1")],
            200,
            "system:node:n1|system:nodes,system:authenticated|",
        ),
        (
            &[
                "impersonate-on:serviceaccount:list pods",
                "impersonate:serviceaccount serviceaccounts",
                "list pods",
            ],
            &[("impersonate-user", "system:serviceaccount:a:b")],
            200,
            "system:serviceaccount:a:b|system:serviceaccounts,system:serviceaccounts:a,system:authenticated|",
        ),
        (
            &[],
            &[("impersonate-group", "dev")],
            400,
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"dev"}, Extra:map[string][]string(nil)} without impersonating a user name"#,
        ),
    ] {
        let chain = TestChain::allowing(Rules::new(rules)).build(handler(|request| async move {
            let names = request.parts.headers.keys();
            assert!(names.into_iter().all(|name| !name.as_str().starts_with("impersonate")));
            let user = request.user.clone().unwrap();
            let extra =
                if user.extra.is_empty() { String::new() } else { format!("{:?}", user.extra) };
            text(format!("{}|{}|{}{extra}", user.name, user.groups.join(","), user.uid))
        }));
        let mut asked = request(LIST);
        for &(name, value) in headers {
            asked.parts.headers.append(name, HeaderValue::from_static(value));
        }
        let response = chain.handle(asked).await;
        assert_eq!(response.status().as_u16(), code, "{rules:?} {headers:?}");
        let body = read(response).await;
        let told = if code == 200 { body } else { chain_support::message(&body) };
        assert_eq!(told, expected);
    }
}

#[tokio::test]
async fn filters_stand_in_the_order_of_the_reference() {
    let log = Log::default();
    let chain = TestChain::logging(&log).build(chain_support::logged(&log));
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

#[tokio::test]
async fn what_is_served_is_counted_and_what_is_made_up_is_not() {
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
        "# HELP apiserver_request_total [STABLE] Requests served, by what was asked for and the code of the answer.",
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
    let chain = test.build(handler(|_| async { chain_support::endless("event") }));
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
