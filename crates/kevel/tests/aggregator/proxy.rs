//! Requests on their way to an extension server, and answers on their way back.

use futures_util::{StreamExt as _, TryStreamExt as _};
use kevel_test_support::soon;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams, WatchEvent,
    WatchParams,
};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::extension_server::{GROUP, PATH, flunder};
use super::{Aggregation as _, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_works_with_remote_kinds_as_with_others() {
    for http2 in [true, false] {
        let cluster = start(&[]).await;
        let extension = cluster.extension_server(http2).await;
        cluster.aggregate(&extension).await;
        let kind = GroupVersionKind::gvk(GROUP, "v1alpha1", "Flunder");
        let resource = ApiResource::from_gvk(&kind);
        let flunders: Api<DynamicObject> =
            Api::namespaced_with(cluster.admin.0.clone(), "default", &resource);
        let listed = flunders.list(&ListParams::default()).await.unwrap();
        assert_eq!(listed.items.len(), 2);
        let new = serde_json::from_value(flunder("c")).unwrap();
        let made = flunders.create(&PostParams::default(), &new).await.unwrap();
        assert_eq!(made.metadata.uid.as_deref(), Some("made"));
        // An event comes when it happens, not when there are enough of them.
        let watch = flunders.watch(&WatchParams::default(), "0").await.unwrap();
        let mut watch = watch.boxed();
        for name in ["d", "e"] {
            let event = json!({"type": "ADDED", "object": flunder(name)});
            extension.state.events.send(format!("{event}\n")).await.unwrap();
            match watch.try_next().await.unwrap().unwrap() {
                WatchEvent::Added(added) => assert_eq!(added.metadata.name.as_deref(), Some(name)),
                other => panic!("{other:?}"),
            }
        }
        drop(watch);
        cluster.stop().await;
    }
}

/// A server takes only so many requests at a time on a connection.
#[tokio::test(flavor = "multi_thread")]
async fn many_watches_do_not_block_other_requests() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(true).await;
    cluster.aggregate(&extension).await;
    let kind = GroupVersionKind::gvk(GROUP, "v1alpha1", "Flunder");
    let resource = ApiResource::from_gvk(&kind);
    let mut watches = Vec::new();
    // Each client has a connection of its own to this server, which takes a hundred, too.
    for _ in 0..4 {
        let client = kube::Client::try_from(cluster.server.client_config().await.unwrap()).unwrap();
        let flunders: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
        for _ in 0..60 {
            watches.push(flunders.watch(&WatchParams::default(), "0").await.unwrap().boxed());
        }
    }
    assert_eq!(cluster.admin.get(&format!("{PATH}/echo")).await.0, 200);
    drop(watches);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_says_who_asks_and_where_it_comes_from() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(false).await;
    cluster.aggregate(&extension).await;
    let headers = [
        ("x-remote-user", "forged"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-a", "b"),
        ("audit-id", "4711"),
        ("x-mine", "1"),
        ("impersonate-user", "jane"),
        ("impersonate-group", "system:masters"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-scopes", "some"),
    ];
    let answer = cluster.admin.raw("GET", &format!("{PATH}/echo?b=2&a=1%2F"), &headers, "").await;
    assert_eq!(answer.headers()["x-own"], "1");
    assert!(answer.headers().get("access-control-allow-origin").is_none());
    let seen: serde_json::Value = serde_json::from_str(answer.body()).unwrap();
    assert_eq!(seen["uri"], format!("{PATH}/echo?a=1%2F&b=2"));
    let seen: Vec<_> =
        seen["headers"].as_array().unwrap().iter().map(|h| h.as_str().unwrap()).collect();
    for expected in [
        "audit-id: 4711",
        "x-forwarded-for: 127.0.0.1",
        &format!("x-forwarded-host: {}", extension.address),
        "x-forwarded-proto: https",
        &format!("x-forwarded-uri: {PATH}/echo"),
        "x-mine: 1",
        "x-remote-extra-scopes: some",
        "x-remote-group: system:authenticated",
        "x-remote-group: system:masters",
        "x-remote-uid: 7",
        "x-remote-user: jane",
        &format!("host: {}", extension.address),
    ] {
        assert!(seen.contains(&expected), "{expected}: {seen:?}");
    }
    for unwanted in ["impersonate", "authorization", "x-remote-extra-a", "forged"] {
        assert!(!seen.iter().any(|header| header.contains(unwanted)), "{unwanted}: {seen:?}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_pass_both_ways_and_redirects_do_not() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(true).await;
    cluster.aggregate(&extension).await;
    // More than this server would take for itself.
    let large = "large ".repeat(1 << 20);
    let answer = cluster.admin.raw("PUT", &format!("{PATH}/upper"), &[], &large).await;
    assert!(*answer.body() == large.to_uppercase());
    let answer = cluster.admin.raw("GET", &format!("{PATH}/moved"), &[], "").await;
    assert_eq!(
        (answer.status().as_u16(), answer.body().as_str()),
        (502, "the backend attempted to redirect this request, which is not permitted"),
    );
    cluster.stop().await;

    let cluster = start(&["--aggregator-reject-forwarding-redirect=false"]).await;
    let extension = cluster.extension_server(true).await;
    cluster.aggregate(&extension).await;
    let answer = cluster.admin.raw("GET", &format!("{PATH}/moved"), &[], "").await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["location"]),
        (302, &"/elsewhere".parse().unwrap())
    );
    cluster.stop().await;
}

/// A path is authorized and passed on by one reading of it.
#[tokio::test(flavor = "multi_thread")]
async fn no_form_of_path_leads_past_permission() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(true).await;
    cluster.aggregate(&extension).await;
    let unknown = [("impersonate-user", "unknown")];
    let root = "/apis/wardle.example.com";
    for path in [
        "/v1alpha1/echo",
        "/v1alpha1//echo",
        "/v1alpha1//namespaces/default/flunders",
        "/v1alpha1/namespaces/default/flunders/",
        "/v1alpha1/namespaces/default//flunders",
        "/v1alpha1%2Fecho",
        "/v1alpha1%2F%2Fecho",
        "/v1alpha1/%2Fnamespaces/default/flunders",
        "/v1alpha1/./echo",
        "/v1alpha1/%2e/echo",
        "/v1alpha1/x/../echo",
    ] {
        let (code, answer) =
            cluster.admin.send("GET", &format!("{root}{path}"), &unknown, "").await;
        assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")), "{path}: {answer}");
    }
    // What the other server sees is what was authorized, however it was written.
    let path = format!("{root}/v1alpha1%2F%65cho?b=x+y&a=%zz&c=1;2&a=%2F&b=1");
    let (_, seen) = cluster.admin.get(&path).await;
    assert_eq!(seen["uri"], format!("{PATH}/echo?a=%2F&b=x+y&b=1"));
    assert_eq!(cluster.admin.get(&format!("{PATH}/%zz")).await.0, 400);
    cluster.stop().await;
}

/// Headers that a client lists in `Connection` are between it and this server. Who it is, is not.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_drops_who_it_is() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(false).await;
    cluster.aggregate(&extension).await;
    let mut plain = cluster.connect().await;
    let ask = |path: &str, connection: &str| {
        format!(
            "GET {PATH}/{path} HTTP/1.1\r\nhost: kubernetes\r\nupgrade: next\r\nx-mine: 1\r\n\
             connection: {connection}, X-Mine, X-Remote-User, x-remote-group, X-Remote-Uid\r\n\r\n"
        )
    };
    plain.write_all(ask("echo", "close").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    for expected in ["x-remote-user: kubernetes-admin", "x-remote-group: system:masters"] {
        assert!(answer.contains(expected), "{answer}");
    }
    assert!(!answer.contains("x-mine"), "{answer}");
    let mut talk = BufReader::new(cluster.connect().await);
    talk.write_all(ask("talk", "Upgrade").as_bytes()).await.unwrap();
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert!(soon(talk.read_line(&mut line)).await.unwrap() > 0, "the head ends early");
    }
    talk.read_line(&mut line).await.unwrap();
    assert_eq!(line, "\r\nhello kubernetes-admin\n");
    drop(talk);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_goes_on_in_another_protocol() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(true).await;
    cluster.aggregate(&extension).await;
    let mut talk = BufReader::new(cluster.connect().await);
    let ask = |path: &str| {
        format!(
            "GET {PATH}/{path} HTTP/1.1\r\nhost: kubernetes\r\nconnection: Upgrade\r\nupgrade: next\r\n\r\n"
        )
    };
    talk.write_all(ask("talk").as_bytes()).await.unwrap();
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert!(soon(talk.read_line(&mut line)).await.unwrap() > 0, "the head ends early");
        lines.push(line.trim_end().to_ascii_lowercase());
        if line == "\r\n" {
            break;
        }
    }
    assert_eq!(lines[0], "http/1.1 101 switching protocols");
    assert!(lines.contains(&"upgrade: next".to_owned()), "{lines:?}");
    let mut hello = String::new();
    talk.read_line(&mut hello).await.unwrap();
    assert_eq!(hello, "hello kubernetes-admin\n");
    for byte in *b"abc" {
        talk.write_u8(byte).await.unwrap();
        talk.flush().await.unwrap();
        assert_eq!(talk.read_u8().await.unwrap(), byte + 1);
    }
    // The server has had enough: so has the client.
    talk.write_u8(b'.').await.unwrap();
    talk.flush().await.unwrap();
    let _ = talk.read_to_end(&mut Vec::new()).await;
    drop(talk);

    let mut refused = cluster.connect().await;
    refused.write_all(ask("refuse").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = refused.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 403 ") && answer.contains(r#"{"message":"no"}"#),
        "{answer}"
    );

    let mut wrong = cluster.connect().await;
    wrong.write_all(ask("echo").as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    wrong.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
    cluster.stop().await;
}
