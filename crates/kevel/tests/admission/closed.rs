//! Plug-ins that are off unless a flag enables them.

use serde_json::{Value, json};

use super::{PODS, cluster};

/// Collections of the workload kinds, and a pod spec within each.
const TEMPLATES: &[(&str, &str)] = &[
    ("/api/v1/namespaces/default/pods", "spec"),
    ("/api/v1/namespaces/default/podtemplates", "template.spec"),
    ("/api/v1/namespaces/default/replicationcontrollers", "spec.template.spec"),
    ("/apis/apps/v1/namespaces/default/daemonsets", "spec.template.spec"),
    ("/apis/apps/v1/namespaces/default/deployments", "spec.template.spec"),
    ("/apis/apps/v1/namespaces/default/replicasets", "spec.template.spec"),
    ("/apis/apps/v1/namespaces/default/statefulsets", "spec.template.spec"),
    ("/apis/batch/v1/namespaces/default/cronjobs", "spec.jobTemplate.spec.template.spec"),
    ("/apis/batch/v1/namespaces/default/jobs", "spec.template.spec"),
];

/// An object of one of these kinds with these fields in its pod's spec.
fn object(kind: &str, path: &str, spec: &Value) -> Value {
    let labels = json!({"app": "a"});
    let mut pod = json!({"restartPolicy": "Always",
        "containers": [{"name": "c", "image": "i"}]});
    if kind.contains("/batch/") {
        pod["restartPolicy"] = "Never".into();
    }
    pod.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let mut object = json!({"metadata": {"name": "o"}, "spec": {}});
    match kind.rsplit('/').next().unwrap() {
        "pods" => {}
        "podtemplates" => object["template"] = json!({"metadata": {"labels": labels}}),
        "cronjobs" => object["spec"]["schedule"] = "0 0 1 1 *".into(),
        "jobs" => {}
        "replicationcontrollers" => {
            object["spec"] =
                json!({"selector": labels, "template": {"metadata": {"labels": labels}}});
        }
        _ => {
            object["spec"] = json!({"selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}}});
        }
    }
    *path.split('.').fold(&mut object, |place, name| &mut place[name]) = pod;
    object
}

/// Pods that may do everything on their node, in every list of containers.
fn privileged() -> [(&'static str, Value, &'static str); 3] {
    let container = json!({"name": "x", "image": "i", "securityContext": {"privileged": true}});
    let windows = json!({"windowsOptions": {"hostProcess": true}});
    [
        (
            "containers[0].securityContext.privileged",
            json!({"containers": [container]}),
            "disallowed by cluster policy",
        ),
        (
            "initContainers[0].securityContext.privileged",
            json!({"initContainers": [container]}),
            "disallowed by cluster policy",
        ),
        (
            "",
            json!({"securityContext": windows, "hostNetwork": true}),
            "hostProcess containers are disallowed by cluster policy",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_containers_need_the_flag() {
    let closed = cluster(&[]).await;
    let open = cluster(&["--allow-privileged=true"]).await;
    for (kind, path) in TEMPLATES {
        for (field, spec, why) in privileged() {
            let body = object(kind, path, &spec).to_string();
            let place = [path, field].join(".");
            let error = format!("{}: Forbidden: {why}", place.trim_end_matches('.'));
            let post = format!("POST {kind}?dryRun=All");
            let refused = closed.refused("admin", &post, &body).await;
            assert!(refused.starts_with("422 ") && refused.contains(&error), "{kind}: {refused}");
            open.ok("admin", &post, &body).await;
        }
        // What is changed is looked at as what is new.
        let plain = object(kind, path, &json!({}));
        closed.ok("admin", &format!("POST {kind}"), &plain.to_string()).await;
        let (_, spec, _) = &privileged()[0];
        let body = object(kind, path, spec).to_string();
        let refused = closed.refused("admin", &format!("PUT {kind}/o"), &body).await;
        assert!(refused.contains("Forbidden: disallowed by cluster policy"), "{kind}: {refused}");
    }
    // Ephemeral containers are no exception.
    let container = json!({"name": "x", "image": "i", "securityContext": {"privileged": true}});
    let body = json!({"spec": {"ephemeralContainers": [container]}}).to_string();
    let patch = format!("PATCH {PODS}/o/ephemeralcontainers");
    let refused = closed.refused("admin", &patch, &body).await;
    let error = "spec.ephemeralContainers[0].securityContext.privileged: Forbidden: disallowed by \
                 cluster policy";
    assert!(refused.contains(error), "{refused}");
    open.ok("admin", &format!("POST {PODS}"), &object(PODS, "spec", &json!({})).to_string()).await;
    open.ok("admin", &patch, &body).await;
    closed.stop().await;
    open.stop().await;
}
