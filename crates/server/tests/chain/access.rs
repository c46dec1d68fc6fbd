//! Tests of authentication, impersonation and authorization.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, WARNING};
use http::{HeaderValue, Version};

use crate::support::{
    Rules, TestChain, answer, by_certificate, handler, header, message, read, request, text,
};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

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
async fn who_is_refused_can_read_it() {
    let denied = || TestChain::allowing(Rules::new(&[]));
    let unknown = || TestChain::with_tokens("abc,jane,1", false);
    let late = "GET /api/v1/pods?timeout=x";
    for (test, line, accept, code, media, begin) in [
        (unknown(), "GET /api/v1/pods", "", 401, "json", "{\"kind\":\"Status\""),
        (unknown(), "GET /api/v1/pods?pretty=1", "", 401, "json", "{\n  \"kind\": \"Status\""),
        (unknown(), "GET /api/v1/pods", "text/html", 401, "json", "{\n  \"kind\": \"Status\""),
        (
            unknown(),
            "GET /api/v1/pods",
            "application/yaml",
            401,
            "yaml",
            "apiVersion: v1\ncode: 401",
        ),
        (
            denied(),
            "GET /api/v1/pods",
            "application/yaml",
            403,
            "yaml",
            "apiVersion: v1\ncode: 403",
        ),
        (denied(), "GET /api/v1/pods", PROTOBUF, 403, "vnd.kubernetes.protobuf", "k8s\0"),
        (denied(), late, "application/yaml", 400, "yaml", "apiVersion: v1\ncode: 400"),
    ] {
        let mut asked = request(line);
        asked.parts.headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let response = test.build(answer("")).handle(asked).await;
        assert_eq!(response.status().as_u16(), code, "{line} {accept}");
        assert_eq!(header(&response, CONTENT_TYPE), format!("application/{media}"), "{accept}");
        let body = response.into_body().bytes().unwrap();
        assert!(body.starts_with(begin.as_bytes()), "{line} {accept}: {body:?}");
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
    test.config.authenticator = by_certificate();
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
            certificates: certificates.collect(),
            ..Default::default()
        });
        let response = chain.handle(asked).await;
        assert_eq!(response.status().as_u16(), code);
        assert_eq!(read(response).await, expected);
    }
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
        // Without permission, the refusal of the most constrained mode is returned.
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
        // Constrained impersonation: both the action and the impersonated user are authorized.
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
        let told = if code == 200 { body } else { message(&body) };
        assert_eq!(told, expected);
    }
}
