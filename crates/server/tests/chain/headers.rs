//! Tests of response headers.

use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONNECTION, STRICT_TRANSPORT_SECURITY, WARNING,
};
use http::{HeaderMap, HeaderValue, Version};
use kevel_server::chain::cors_origins;

use crate::support::{TestChain, answer, handler, header, read, request, text};

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

/// Without a recorder of spans, a client's context goes on to the servers that are called for it.
#[tokio::test]
async fn trace_context_of_client_is_passed_on() {
    let chain = TestChain::default().build(handler(|_| async move {
        let mut headers = HeaderMap::new();
        kevel_trace::inject(&mut headers);
        let parent = headers.get("traceparent").map(HeaderValue::to_str);
        text(parent.transpose().unwrap().unwrap_or_default().to_owned())
    }));
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (given, expected) in [(parent, parent), ("rubbish", "")] {
        let mut asked = request("GET /x");
        asked.parts.headers.insert("traceparent", HeaderValue::from_static(given));
        assert_eq!(read(chain.handle(asked).await).await, expected);
    }
}
