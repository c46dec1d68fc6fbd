//! Objects that exist before the attack: permissions, quotas, a custom kind, and the smallest object of each kind that
//! has rules.

use kevel_api::builtin;
use kevel_bench::kinds::smallest;
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
    let builtin = smallest().into_iter().filter_map(|(group, plural, rest)| {
        let mut all = builtin::resources().iter();
        let row = all.find(|r| r.on && r.group == group && r.path == plural)?;
        Some(object(row, rest))
    });
    let widget = custom("Widget", "widgets", json!({"spec": {"text": "a"}}));
    builtin.chain([widget]).collect()
}
