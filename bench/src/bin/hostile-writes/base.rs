//! What is there before the attack: rights, quotas, a custom kind, and the smallest object of each
//! kind that has rules.

use kevel_api::builtin;
use serde_json::{Value, json};

use crate::world::{Object, custom, object};

/// Objects of the cluster, with the paths that they are made at.
pub fn cluster(user: &str, namespace: &str) -> Vec<(String, Value)> {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let widgets = json!({"apiGroups": ["hostile.example.com"], "resources": ["*"], "verbs": ["*"]});
    let rest = json!({"apiGroups": ["*"], "resources": ["*"],
        "verbs": ["create", "update", "patch", "delete", "deletecollection", "get", "list"]});
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
    let binding = |name: &str, kind: &str, role: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}})
    };
    let here = format!("{rbac}/namespaces/{namespace}");
    vec![
        (
            "/api/v1/namespaces".to_owned(),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        ),
        (
            format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}),
        ),
        (
            format!("{here}/roles"),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": "everything"}, "rules": [widgets, rest]}),
        ),
        (format!("{here}/rolebindings"), binding("admin", "ClusterRole", "admin")),
        (format!("{here}/rolebindings"), binding("everything", "Role", "everything")),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(), definition()),
        (
            format!("/api/v1/namespaces/{namespace}/limitranges"),
            json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"},
                "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"},
                    "defaultRequest": {"cpu": "1"}, "max": {"cpu": "100"}}]}}),
        ),
    ]
}

/// A custom kind with lists of all sorts, and rules as people write them.
fn definition() -> Value {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let set =
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    let entry = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "port": {"type": "integer", "default": 1}, "text": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}}}});
    let map = json!({"type": "array", "items": entry, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"]});
    let spec = json!({"type": "object", "properties": {
        "text": {"type": "string", "pattern": "^(a|b|x)*$"},
        "expression": {"type": "string"},
        "list": texts,
        "numbers": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "set": set,
        "map": map,
        "free": {"type": "object", "additionalProperties": {"type": "string"}},
        "nested": {"type": "object", "additionalProperties": {"type": "object",
            "additionalProperties": {"type": "integer"}}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
        "replicas": {"type": "integer"}},
        "x-kubernetes-validations": [
            {"rule": "!has(self.expression) || !('x'.matches(self.expression))"},
            {"rule": "!has(self.text) || size(self.text) > 0"},
            {"rule": "!has(self.set) || !has(oldSelf.set) || self.set == oldSelf.set || true"},
            {"rule": "!has(self.map) || !has(oldSelf.map) || self.map == oldSelf.map || true"}]});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}},
            "additionalPrinterColumns": [
                {"name": "Text", "type": "string", "jsonPath": ".spec.text"}]})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.hostile.example.com"},
        "spec": {"group": "hostile.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version("v1", true), version("v2", false)]}})
}

/// The objects, each the smallest of its kind.
pub fn objects() -> Vec<Object> {
    let labels = json!({"app": "a"});
    let pod = json!({"containers": [{"name": "a", "image": "b"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let once = json!({"metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}});
    let selector = json!({"matchLabels": labels});
    let workload = json!({"spec": {"selector": selector, "template": template}});
    let known: Vec<(&str, &str, Value)> = vec![
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
    ];
    let builtin = known.into_iter().filter_map(|(group, plural, rest)| {
        let mut all = builtin::resources().iter();
        let row = all.find(|r| r.on && r.group == group && r.path == plural)?;
        Some(object(row, rest))
    });
    let widget = custom("Widget", "widgets", json!({"spec": {"text": "a"}}));
    builtin.chain([widget]).collect()
}
