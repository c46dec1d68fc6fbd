//! The smallest object of each kind that has rules.

use serde_json::{Value, json};

/// Group, plural and content, besides `metadata`.
pub fn smallest() -> Vec<(&'static str, &'static str, Value)> {
    let labels = json!({"app": "a"});
    let pod = json!({"containers": [{"name": "a", "image": "b"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let once = json!({"metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}});
    let selector = json!({"matchLabels": labels});
    let workload = json!({"spec": {"selector": selector, "template": template}});
    vec![
        ("", "configmaps", json!({"data": {"a": "b"}})),
        ("", "secrets", json!({"stringData": {"a": "b"}})),
        ("", "pods", json!({"spec": pod})),
        ("", "services", json!({"spec": {"ports": [{"port": 80}]}})),
        (
            "",
            "endpoints",
            json!({"subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 1}]}]}),
        ),
        ("", "serviceaccounts", json!({})),
        ("", "podtemplates", json!({"template": template})),
        ("", "replicationcontrollers", json!({"spec": {"selector": labels, "template": template}})),
        ("", "resourcequotas", json!({"spec": {"hard": {"configmaps": "1000000"}}})),
        ("", "limitranges", json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1000"}}]}})),
        (
            "",
            "persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}),
        ),
        ("apps", "deployments", workload.clone()),
        ("apps", "replicasets", workload.clone()),
        ("apps", "daemonsets", workload.clone()),
        (
            "apps",
            "statefulsets",
            json!({"spec": {"serviceName": "a", "selector": selector, "template": template}}),
        ),
        ("apps", "controllerrevisions", json!({"data": {"a": 1}, "revision": 1})),
        ("batch", "jobs", json!({"spec": {"template": once}})),
        (
            "batch",
            "cronjobs",
            json!({"spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": once}}}}),
        ),
        ("coordination.k8s.io", "leases", json!({"spec": {"holderIdentity": "a"}})),
        (
            "discovery.k8s.io",
            "endpointslices",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}]}),
        ),
        (
            "networking.k8s.io",
            "ingresses",
            json!({"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 1}}}}}),
        ),
        ("networking.k8s.io", "networkpolicies", json!({"spec": {"podSelector": {}}})),
        (
            "policy",
            "poddisruptionbudgets",
            json!({"spec": {"selector": selector, "minAvailable": 1}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "roles",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        (
            "rbac.authorization.k8s.io",
            "rolebindings",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "a"}]}),
        ),
        (
            "autoscaling",
            "horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}}}),
        ),
    ]
}
