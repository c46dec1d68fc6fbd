//! Objects that etcd holds as protobuf, updated by the server that wrote them and by one that starts later.

use kevel_test_support::{Replica, Replicas};
use serde_json::{Value, json};

const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

fn stateful_set() -> Value {
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "set"},
        "spec": {
            "serviceName": "set",
            "replicas": 1,
            "selector": {"matchLabels": {"app": "set"}},
            "template": {
                "metadata": {"labels": {"app": "set"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
            "volumeClaimTemplates": [claim],
        },
    })
}

/// Everything that changes a StatefulSet's scale: an update, a patch, an apply, its subresource.
async fn scale(server: &Replica, mut replicas: u64) {
    let path = format!("{SETS}/set");
    let (_, found) = server.admin.get(&path).await;
    let (code, same) = server.admin.send("PUT", &path, &[], &found.to_string()).await;
    assert_eq!((code, &same), (200, &found));
    let (_, mut scale) = server.admin.get(&format!("{path}/scale")).await;
    let mut set = stateful_set();
    let mut next = |object: &mut Value| {
        replicas += 1;
        object["spec"]["replicas"] = replicas.into();
        object.to_string()
    };
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}});
    let requests = [
        ("PUT", "", "application/json", next(&mut set)),
        ("PUT", "/scale", "application/json", next(&mut scale)),
        ("PATCH", "", "application/strategic-merge-patch+json", next(&mut patch.clone())),
        ("PATCH", "", "application/merge-patch+json", next(&mut patch.clone())),
        ("PATCH", "?fieldManager=a&force=true", "application/apply-patch+yaml", next(&mut set)),
    ];
    for (method, suffix, media, body) in requests {
        let headers = [("content-type", media)];
        let (code, written) =
            server.admin.send(method, &format!("{path}{suffix}"), &headers, &body).await;
        assert_eq!(code, 200, "{method} {suffix} {media}: {written}");
        let sent: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(written["spec"]["replicas"], sent["spec"]["replicas"], "{method} {suffix}");
    }
    let (_, set) = server.admin.get(&path).await;
    let claim = &set["spec"]["volumeClaimTemplates"][0];
    assert_eq!(
        (&claim["apiVersion"], &claim["kind"]),
        (&json!("v1"), &json!("PersistentVolumeClaim"))
    );
    let mut other = stateful_set();
    other["spec"]["serviceName"] = "other".into();
    let (code, refused) = server.admin.send("PUT", &path, &[], &other.to_string()).await;
    assert_eq!(code, 422, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stateful_set_with_claim_templates_is_updated_on_etcd() {
    let Some(replicas) = Replicas::new().await else { return };
    let first = replicas.start("first", &[]).await;
    first.admin.create(SETS, &stateful_set()).await;
    scale(&first, 10).await;
    first.stop().await;
    let second = replicas.start("second", &[]).await;
    scale(&second, 20).await;
    second.stop().await;
}
