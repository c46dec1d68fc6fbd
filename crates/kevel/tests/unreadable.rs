//! Objects that cannot be read, and their deletion behind the gate `AllowUnsafeMalformedObjectDeletion`.

#![allow(clippy::unwrap_used)]

use kevel_store::Engine as _;
use kevel_store::etcd::{Etcd, Options};
use kevel_test_support::{Client, Cluster, Replica, Replicas, soon, until};
use serde_json::{Value, json};

const GATE: &str = "--feature-gates=AllowUnsafeMalformedObjectDeletion=true";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const OPTION: &str = r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true}"#;

/// A server on an etcd, and the etcd, to write into what is no object.
struct Damaged {
    server: Replica,
    store: Etcd,
    /// The etcd, which ends with the test.
    _replicas: Replicas,
}

impl Damaged {
    /// A server whose config maps `good` and `bad` are there, and the second cannot be decoded. Returns its revision.
    async fn start(flags: &[&str]) -> Option<(Damaged, u64)> {
        let replicas = Replicas::new().await?;
        let server = replicas.start("a", flags).await;
        let endpoints = vec![replicas.etcd.endpoint.clone()];
        let options = Options { endpoints, compaction_interval: None, ..Options::default() };
        let store = Etcd::connect(options).await.unwrap();
        let damaged = Damaged { server, store, _replicas: replicas };
        until(async || damaged.get("/api/v1/namespaces/default").await.0 == 200).await;
        for name in ["good", "bad"] {
            let object = json!({"metadata": {"name": name, "finalizers": ["example.com/held"]}});
            damaged.server.admin.create(MAPS, &object).await;
        }
        let revision = damaged.overwrite("bad").await;
        Some((damaged, revision))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.server.admin.get(path).await
    }

    /// Replaces what is stored by something that is no object.
    async fn overwrite(&self, name: &str) -> u64 {
        let key = format!("/registry/configmaps/default/{name}").into_bytes();
        let found = self.store.get(&key, None).await.unwrap().entry.unwrap();
        let written = self.store.update(&key, "garbage".into(), found.mod_revision, None).await;
        let bad = format!("{MAPS}/{name}");
        until(async || self.get(&bad).await.0 == 500).await;
        written.unwrap().0
    }

    async fn delete(&self, who: Option<&str>, path: &str, options: &str) -> (u16, Value) {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(who.map(|who| ("impersonate-user", who)));
        self.server.admin.send("DELETE", path, &headers, options).await
    }
}

fn corrupt(key: &str, revision: u64) -> String {
    format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
         object not decodable revision={revision}: not a JSON object"
    )
}

/// Lets jane do so with config maps.
async fn permit(admin: &Client, verb: &str) {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rules = json!([{"verbs": [verb], "apiGroups": [""], "resources": ["configmaps"]}]);
    admin.create(roles, &json!({"metadata": {"name": verb}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": verb},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": verb},
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    admin.create(bindings, &binding).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_object_is_named_and_deleted_behind_the_gate() {
    let Some((damaged, revision)) = Damaged::start(&[GATE]).await else { return };
    let (bad, good) = (format!("{MAPS}/bad"), format!("{MAPS}/good"));
    let (_, status) = damaged.get(&bad).await;
    let why = corrupt("/configmaps/default/bad", revision);
    assert_eq!(status["message"], format!("Internal error occurred: {why}"));
    let (code, status) = damaged.get(MAPS).await;
    let key = "/registry/configmaps/default/bad";
    let cause = json!({"reason": "UnexpectedServerResponse", "field": key,
                       "message": corrupt(key, revision)});
    let message = "failed to read one or more configmaps from the storage";
    assert_eq!(
        (code, status),
        (
            500,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
                "message": message, "reason": "StorageReadError",
                "details": {"name": "list", "kind": "configmaps", "causes": [cause]},
            })
        ),
    );
    let others = "/api/v1/namespaces/kube-system/configmaps";
    assert_eq!(damaged.get(others).await.0, 200);

    // Another permission than that to delete.
    permit(&damaged.server.admin, "delete").await;
    until(async || damaged.delete(Some("jane"), &bad, "").await.0 == 500).await;
    let (code, status) = damaged.delete(Some("jane"), &bad, OPTION).await;
    let refused = r#"configmaps "bad" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: "#;
    assert_eq!((code, &status["message"]), (403, &json!(refused)));
    permit(&damaged.server.admin, "unsafe-delete-ignore-read-errors").await;
    until(async || damaged.delete(Some("jane"), &good, OPTION).await.0 == 422).await;
    let (_, status) = damaged.delete(Some("jane"), &good, OPTION).await;
    let refused = "configmaps \"good\" is invalid: ignoreStoreReadErrorWithClusterBreakingPotential: \
                   Invalid value: true: is exclusively used to delete corrupt object(s), try again by \
                   removing this option";
    assert_eq!(status["message"], refused);
    assert_eq!(damaged.get(&good).await.0, 200);
    let (code, status) = damaged.delete(Some("jane"), &bad, OPTION).await;
    let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                      "details": {"name": "bad", "kind": "ConfigMap"}, "code": 200});
    assert_eq!((code, status), (200, done));
    assert_eq!(damaged.get(&bad).await.0, 404);
    assert_eq!(damaged.get(MAPS).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_need_the_object_are_refused() {
    let cluster = Cluster::start(&[GATE]).await;
    cluster.admin.create(MAPS, &json!({"metadata": {"name": "a"}})).await;
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    for (other, name) in [
        (r#""dryRun":["All"]"#, "dryRun"),
        (r#""propagationPolicy":"Orphan""#, "propagationPolicy"),
        (r#""orphanDependents":false"#, "orphanDependents"),
        (r#""gracePeriodSeconds":1"#, "gracePeriodSeconds"),
        (r#""preconditions":{"uid":"u"}"#, "preconditions"),
    ] {
        let body = format!(r#"{{"{option}":true,{other}}}"#);
        let said = cluster.refused("admin", &format!("DELETE {MAPS}/a"), &body).await;
        let expected = format!(
            "422 DeleteOptions.meta.k8s.io \"\" is invalid: {option}: Invalid value: true: cannot be set \
             together with .{name}"
        );
        assert_eq!(said, expected);
    }
    let said = cluster.refused("admin", &format!("DELETE {MAPS}"), OPTION).await;
    let expected = format!(
        "422 DeleteOptions.meta.k8s.io \"\" is invalid: {option}: Invalid value: true: is not allowed with \
         DELETECOLLECTION, try again after removing the option"
    );
    assert_eq!(said, expected);
    let query = format!("DELETE {MAPS}/a?{option}=true");
    assert!(cluster.refused("admin", &query, "").await.contains("is exclusively used"));
    cluster.ok("admin", &format!("DELETE {MAPS}/a?{option}=false"), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn option_has_no_effect_without_the_gate() {
    let Some((damaged, _)) = Damaged::start(&[]).await else { return };
    let bad = format!("{MAPS}/bad");
    let (code, status) = damaged.delete(None, &bad, OPTION).await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    assert_eq!(damaged.get(MAPS).await.0, 200);
    assert_eq!(damaged.delete(None, &format!("{MAPS}/good"), OPTION).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_end_when_a_damaged_object_is_deleted() {
    let Some((damaged, _)) = Damaged::start(&[GATE]).await else { return };
    assert_eq!(damaged.delete(None, &format!("{MAPS}/bad"), OPTION).await.0, 200);
    let list = damaged.get(MAPS).await.1;
    let since = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let watch = async |selector: &str| {
        let path = format!("{MAPS}?watch=true&resourceVersion={since}{selector}");
        // The stream ends with the error, which is its only event.
        let (_, event) = damaged.get(&path).await;
        let object = &event["object"];
        let reason = (&event["type"], &object["code"], &object["reason"]);
        assert_eq!(reason, (&json!("ERROR"), &json!(500), &json!("StorageReadError")), "{event}");
        let said = object["message"].as_str().unwrap();
        let expected = "saw a DELETED event, but object data is corrupt - object not decodable";
        assert!(said.starts_with(expected), "{said}");
    };
    let lose = async {
        damaged.overwrite("good").await;
        assert_eq!(damaged.delete(None, &format!("{MAPS}/good"), OPTION).await.0, 200);
    };
    let by_name = "&fieldSelector=metadata.name%3Dgood";
    soon(async { tokio::join!(watch(""), watch(by_name), watch("&labelSelector=a%3Db"), lose) })
        .await;
    let other = format!("{MAPS}?watch=true&timeoutSeconds=1&resourceVersion={since}");
    let (code, event) = damaged.get(&format!("{other}&fieldSelector=metadata.name%3Dother")).await;
    assert_eq!((code, event), (200, Value::String(String::new())));
}
