//! Options in the query or body, and content negotiation.

use http_body_util::BodyExt as _;
use kevel_registry::storage::Format;
use kevel_test_support::InMemory;

use crate::{CM, field};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;

async fn server() -> InMemory {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {CM}"), MAP, 201).await;
    server
}

#[tokio::test]
async fn field_managers_are_validated_and_force_needs_apply() {
    let server = server().await;
    let long = format!("fieldManager={}", "x".repeat(129));
    for (what, body, media, said) in [
        (
            format!("POST {CM}?{long}"),
            MAP,
            JSON,
            "fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            format!("PUT {CM}/a?{long}"),
            MAP,
            JSON,
            "fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            format!("PATCH {CM}/a?{long}"),
            MAP,
            APPLY,
            "fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            format!("PATCH {CM}/a?fieldManager=a%01b"),
            MAP,
            MERGE,
            "invalid character U+0001 (at position 1)",
        ),
        (
            format!("PATCH {CM}/a"),
            MAP,
            APPLY,
            "fieldManager: Required value: is required for apply patch",
        ),
        (
            format!("PATCH {CM}/a?force=true"),
            "{}",
            MERGE,
            "force: Forbidden: may not be specified for non-apply patch",
        ),
    ] {
        let refused = server.typed(&what, body, 422, media).await;
        assert!(refused.contains(said), "{what}: {refused}");
    }
    server.typed(&format!("PATCH {CM}/a?fieldManager=a&force=true"), MAP, 200, APPLY).await;
}

#[tokio::test]
async fn only_options_of_a_deletion_delete() {
    let server = server().await;
    for (body, said) in [
        (MAP, r#"no kind \"ConfigMap\" is registered for version \"v1\""#),
        (r#"{"kind":"Pod"}"#, r#"no kind \"Pod\" is registered for version \"meta.k8s.io/v1\""#),
        (
            r#"{"kind":"Status","apiVersion":"v1"}"#,
            "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
        ),
        ("[]", "couldn't get version/kind; json parse error"),
        (
            r#"{"kind":"DeleteOptions","apiVersion":"a/b/c"}"#,
            "unexpected GroupVersion string: a/b/c",
        ),
    ] {
        for what in [format!("DELETE {CM}/a"), format!("DELETE {CM}")] {
            let refused = server.ok(&what, body, 400).await;
            assert!(refused.contains(said), "{what} {body}: {refused}");
        }
    }
    let named = r#"{"kind":"DeleteOptions","apiVersion":"apps/v7"}"#;
    server.ok(&format!("DELETE {CM}/a"), named, 200).await;
}

#[tokio::test]
async fn preconditions_stand_in_the_query_too() {
    let server = server().await;
    for query in ["uid=x", "resourceVersion=0"] {
        for what in [format!("DELETE {CM}/a?{query}"), format!("DELETE {CM}?{query}")] {
            let refused = server.ok(&what, "", 409).await;
            assert!(refused.contains("in the precondition"), "{what}: {refused}");
        }
    }
    let found = server.ok(&format!("GET {CM}/a"), "", 200).await;
    let (uid, version) = (field(&found, "uid"), field(&found, "resourceVersion"));
    let own = format!("uid={uid}&resourceVersion={version}");
    server.ok(&format!("DELETE {CM}/a?{own}"), "", 200).await;
}

#[tokio::test]
async fn routes_go_by_names_and_objects_by_shapes() {
    let server = server().await;
    let of = |shape: &str| format!("application/json;as={shape};v=v1;g=meta.k8s.io");
    let (one, many) = (format!("GET {CM}/a"), format!("GET {CM}"));
    for (what, accept, code, said) in [
        (&one, "application/*".to_owned(), 406, "406: Not Acceptable"),
        (&one, "application/json;q=0".to_owned(), 200, "ConfigMap"),
        (&one, of("Bogus"), 406, "only the following media types are accepted: application/json, "),
        (&many, of("PartialObjectMetadata"), 406, "is a list (*core.ConfigMapList)"),
        (&one, of("PartialObjectMetadataList"), 406, "is not a list (*core.ConfigMap)"),
        (&many, of("PartialObjectMetadataList"), 200, "PartialObjectMetadataList"),
    ] {
        let response = server.accept(what, &accept).await;
        assert_eq!(response.status(), code, "{what} {accept}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body);
        assert!(body.contains(said), "{what} {accept}: {body}");
    }
    // A failure has no rows; where nothing else is accepted it is JSON.
    let rows = "application/yaml;as=Table;v=v1;g=meta.k8s.io";
    let response = server.accept(&format!("GET {CM}/b"), rows).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (404, &JSON.parse().unwrap())
    );
}

#[tokio::test]
async fn drains_of_older_clients_evict() {
    let server = InMemory::start(Format::Json).await;
    let pods = "/api/v1/namespaces/ns/pods";
    let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    server.ok(&format!("POST {pods}"), pod, 201).await;
    let eviction = |version: &str| {
        format!(r#"{{"apiVersion":"{version}","kind":"Eviction","metadata":{{"name":"p"}}}}"#)
    };
    let evict = format!("POST {pods}/p/eviction");
    server.ok(&evict, &eviction("policy/v2"), 400).await;
    let broken = eviction("policy/v1").replace(
        "}}",
        r#"},"deleteOptions":{"ignoreStoreReadErrorWithClusterBreakingPotential":true}}"#,
    );
    server.ok(&evict, &broken, 422).await;
    server.ok(&evict, &eviction("policy/v1beta1"), 201).await;
}

#[tokio::test]
async fn get_with_export_is_refused() {
    let server = server().await;
    let said = "the export parameter, deprecated since v1.14, is no longer supported";
    for (query, code) in [
        ("export=true", 400),
        ("export=", 400),
        ("export=1&exact=true", 400),
        ("export=false", 200),
        ("export=0", 200),
        ("exact=true", 200),
    ] {
        let answer = server.ok(&format!("GET {CM}/a?{query}"), "", code).await;
        assert_eq!(answer.contains(said), code == 400, "{query}: {answer}");
    }
    server.ok(&format!("GET {CM}?export=true"), "", 200).await;
}

#[tokio::test]
async fn continue_token_excludes_any_resource_version() {
    let server = server().await;
    server.ok(&format!("POST {CM}"), &MAP.replace(r#""a""#, r#""b""#), 201).await;
    let first = server.ok(&format!("GET {CM}?limit=1"), "", 200).await;
    let token = field(&first, "continue");
    let not_allowed = "specifying resource version is not allowed when using continue";
    for (query, code, said) in [
        (format!("continue={token}&resourceVersion=x"), 400, not_allowed),
        (format!("continue={token}&resourceVersion=1"), 400, not_allowed),
        (format!("continue={token}&resourceVersion=00"), 400, not_allowed),
        (format!("continue={token}&resourceVersion=0"), 200, r#""name":"b""#),
        ("continue=x&resourceVersion=x".to_owned(), 400, "continue key is not valid"),
        ("resourceVersion=x".to_owned(), 400, "invalid resource version"),
    ] {
        let answer = server.ok(&format!("GET {CM}?{query}"), "", code).await;
        assert!(answer.contains(said), "{query}: {answer}");
    }
}

#[tokio::test]
async fn resource_version_of_a_new_object_counts_as_a_number() {
    let server = server().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    let object = |kind: &str, name: &str, version: &str| {
        format!(r#"{{{kind}"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#)
    };
    let set = "resourceVersion should not be set on objects to be created";
    for (name, version, code) in [
        ("n1", "x", 201),
        ("n2", "0", 201),
        ("n3", "-1", 201),
        ("n4", "1", 500),
        ("n5", "007", 500),
    ] {
        let answer = server.ok(&format!("POST {CM}"), &object("", name, version), code).await;
        assert_eq!(answer.contains(set), code == 500, "{version}: {answer}");
        if code == 201 {
            assert!(field(&answer, "resourceVersion").parse::<u64>().is_ok(), "{answer}");
        }
    }
    // An update or apply that creates does not tell the store that it does.
    server.ok(&format!("PUT {leases}/l"), &object("", "l", "7"), 201).await;
    server.ok(&format!("PUT {leases}/m"), &object("", "m", "x"), 500).await;
    let config = object(r#""apiVersion":"v1","kind":"ConfigMap","#, "n6", "7");
    server.typed(&format!("PATCH {CM}/n6?fieldManager=m"), &config, 201, APPLY).await;
}

#[tokio::test]
async fn accept_header_is_checked_before_the_write() {
    let server = server().await;
    let (json, table) = (JSON, "application/json;as=Table;v=v1;g=meta.k8s.io");
    let pods = "/api/v1/namespaces/ns/pods";
    let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    server.ok(&format!("POST {pods}"), pod, 201).await;
    let named = |kind: &str| format!("{table},application/json;as={kind};v=v1;g=meta.k8s.io");
    for (what, media, accept, code, said) in [
        (format!("POST {CM}"), json, "text/html", 406, "406: Not Acceptable"),
        (
            format!("POST {CM}"),
            json,
            "application/json;as=X",
            406,
            "only the following media types",
        ),
        (format!("PUT {CM}/missing"), json, "application/json;as=X", 406, "only the following"),
        (format!("PATCH {CM}/missing"), MERGE, "application/json;as=X", 406, "only the following"),
        (format!("DELETE {CM}/missing"), json, "application/json;as=X", 406, "only the following"),
        (format!("GET {CM}/missing"), json, "application/json;as=X", 406, "only the following"),
        // The route is chosen by the form of a patch, then by what is accepted.
        (format!("PATCH {CM}/a"), "text/plain", "text/html", 415, "415: Unsupported Media Type"),
        // What has no columns is not shown as rows.
        (format!("POST {pods}/p/eviction"), json, table, 406, "only the following media types"),
        (format!("GET {pods}/p/ephemeralcontainers"), json, table, 406, "only the following"),
        (format!("GET {pods}/p/status"), json, table, 200, "\"kind\":\"Table\""),
        (
            format!("GET {pods}/p/resize"),
            json,
            &*named("PartialObjectMetadata"),
            200,
            "PartialObjectMetadata",
        ),
    ] {
        let headers = [("content-type", media), ("accept", accept)];
        let body = MAP.as_bytes().to_vec().into();
        let response = server.send_as(None, &what, &headers, body).await;
        let found = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body);
        assert!(found == code && body.contains(said), "{what} {accept}: {found} {body}");
    }
}
