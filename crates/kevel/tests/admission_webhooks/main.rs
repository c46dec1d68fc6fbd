//! Webhooks that a running server asks about writes: over TLS, and in every way to fail.

#![allow(clippy::unwrap_used)]

mod clients;
mod failures;
mod hook_server;
mod image_policy;
mod manifests;
mod matching;
mod mutating;
mod reviews;
mod traces;
mod validating;

use kevel_test_support::Cluster;
use serde_json::{Value, json};

pub(crate) use hook_server::{Answer, HookServer, base64};

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// Consent.
pub(crate) fn allow() -> Answer {
    Answer::Response(json!({"allowed": true}))
}

/// A refusal with this status.
pub(crate) fn deny(status: Value) -> Answer {
    Answer::Response(json!({"allowed": false, "status": status}))
}

/// Consent, if this JSON patch is applied.
pub(crate) fn patch(patch: Value) -> Answer {
    let patch = base64(&patch.to_string());
    Answer::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// A server and its webhooks.
pub(crate) struct Hooked {
    pub(crate) cluster: Cluster,
    pub(crate) hooks: HookServer,
}

/// A configuration of webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutating,
    Validating,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Mutating, Kind::Validating];

    fn path(self) -> String {
        let plural = match self {
            Kind::Mutating => "mutatingwebhookconfigurations",
            Kind::Validating => "validatingwebhookconfigurations",
        };
        format!("{CONFIGURATIONS}/{plural}")
    }
}

impl Hooked {
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let hooks = HookServer::start().await;
        Hooked { cluster: Cluster::start(flags).await, hooks }
    }

    /// A webhook at a path of the server, about new config maps unless `fields` say otherwise.
    pub(crate) fn webhook(&self, path: &str, fields: Value) -> Value {
        let mut webhook = json!({
            "name": format!("{}.hook.test", path.trim_matches('/').replace('/', "-")),
            "clientConfig": self.hooks.client_config(path),
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            // Objects that probe whether a configuration is in effect are not sent to other webhooks.
            "objectSelector": {"matchExpressions": [{"key": "probe", "operator": "DoesNotExist"}]},
        });
        for (field, value) in fields.as_object().unwrap() {
            webhook[field] = value.clone();
        }
        webhook
    }

    /// Makes a configuration of these webhooks, and waits until it counts.
    pub(crate) async fn configure(&self, kind: Kind, name: &str, webhooks: &[Value]) {
        let probe = format!("/probe-{name}");
        self.hooks.on(&probe, |_| deny(json!({"message": "here"})));
        let mut webhooks = webhooks.to_vec();
        webhooks.push(self.webhook(
            &probe,
            json!({
                "objectSelector": {"matchLabels": {"probe": name}},
            }),
        ));
        let object = json!({"metadata": {"name": name}, "webhooks": webhooks}).to_string();
        self.cluster.ok("admin", &format!("POST {}", kind.path()), &object).await;
        self.probe(name, true).await;
        self.hooks.forget();
    }

    /// Deletes a configuration, and waits until it counts no more.
    pub(crate) async fn unconfigure(&self, kind: Kind, name: &str) {
        self.cluster.ok("admin", &format!("DELETE {}/{name}", kind.path()), "").await;
        self.probe(name, false).await;
    }

    /// Waits until a configuration is asked, or is not.
    async fn probe(&self, name: &str, asked: bool) {
        let body = json!({"metadata": {"name": "probe", "labels": {"probe": name}}}).to_string();
        let here = |answer: &(u16, String)| answer.1.contains("denied the request: here");
        let post = format!("POST {CONFIG_MAPS}?dryRun=All");
        self.cluster.until_sent("admin", &post, &body, |answer| here(answer) == asked).await;
    }

    /// Whether an object is stored.
    pub(crate) async fn stored(&self, path: &str) -> bool {
        self.cluster.send("admin", &format!("GET {path}"), "").await.0 == 200
    }

    pub(crate) async fn stop(self) {
        self.cluster.stop().await;
    }
}

/// A config map with this name and data.
pub(crate) fn config_map(name: &str) -> String {
    json!({"metadata": {"name": name}, "data": {"a": "1"}}).to_string()
}
