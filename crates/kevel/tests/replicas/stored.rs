//! Objects that etcd holds as protobuf, updated by the server that wrote them and by one that starts later.

use std::process::Command;

use kevel_test_support::{Replica, Replicas, program};
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
    scale["metadata"]["resourceVersion"] = "".into();
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

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_applies_scales_and_replaces_stateful_set_on_etcd() {
    let Some(kubectl) = program("kubectl") else { return };
    let Some(replicas) = Replicas::new().await else { return };
    let server = replicas.start("first", &[]).await;
    let file = replicas.folder.path().join("set.json");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&kubectl);
        command.arg("--kubeconfig").arg(replicas.folder.path().join("admin.kubeconfig"));
        command.arg("--server").arg(server.config.cluster_url.to_string()).args(arguments);
        let output = command.env("HOME", replicas.folder.path()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {printed}{complaint}");
        printed
    };
    let name = file.to_str().unwrap();
    let write = |set: &Value| std::fs::write(&file, set.to_string()).unwrap();
    let mut set = stateful_set();
    write(&set);
    assert_eq!(run(&["apply", "-f", name]), "statefulset.apps/set created\n");
    // To kubectl the templates without their kinds differ from those that it reads; to the server they do not.
    let version = ["get", "statefulset/set", "-o", "jsonpath={.metadata.resourceVersion}"];
    let before = run(&version);
    run(&["apply", "-f", name]);
    assert_eq!(run(&version), before);
    assert_eq!(run(&["scale", "statefulset/set", "--replicas=3"]), "statefulset.apps/set scaled\n");
    set["spec"]["template"]["spec"]["containers"][0]["image"] = "j".into();
    write(&set);
    assert_eq!(run(&["apply", "-f", name]), "statefulset.apps/set configured\n");
    let applied = run(&["apply", "--server-side", "--force-conflicts", "-f", name]);
    assert_eq!(applied, "statefulset.apps/set serverside-applied\n");
    write(&serde_json::from_str(&run(&["get", "statefulset/set", "-o", "json"])).unwrap());
    assert_eq!(run(&["replace", "-f", name]), "statefulset.apps/set replaced\n");
    let rows = run(&["get", "statefulset/set", "-o", "jsonpath={.spec.replicas}"]);
    assert_eq!(rows, "1");
    server.stop().await;
}
