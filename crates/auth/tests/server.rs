//! The policy, the authorizer and the escalation check on a server of built-in kinds, in memory.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::sync::Arc;

use kevel_auth::{Escalation, Rbac, Sources, bootstrap};
use kevel_controller_runtime::Client;
use kevel_registry::admission::Admission;
use kevel_registry::storage::Format;
use kevel_registry::user::User;
use kevel_server::authorization::{Attributes, Authorizer, Decision};
use kevel_server::endpoints::{Endpoints, MIN_REQUEST_TIMEOUT};
use kevel_server::lifecycle::Lifecycle;
use kevel_server::request_info::RequestInfo;
use kevel_test_support::{InMemory, until};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A server that asks RBAC.
struct Guarded {
    server: InMemory,
    rbac: Arc<Rbac>,
}

impl Guarded {
    async fn start() -> Self {
        let mut rbac = None;
        let server = InMemory::empty(Format::Json, |storages| {
            let rbac = rbac.insert(Arc::new(Rbac::new(Sources::of(storages).unwrap())));
            rbac.follow(&Lifecycle::default().tasks);
            let escalation = Escalation::new(rbac.clone(), rbac.clone());
            Endpoints {
                admission: Admission::new(vec![Arc::new(escalation)]),
                authorizer: Some(rbac.clone()),
                min_request_timeout: MIN_REQUEST_TIMEOUT,
                connecters: Default::default(),
                features: Default::default(),
                shard_selectors: None,
            }
        });
        let server = server.await;
        let guarded = Guarded { server, rbac: rbac.unwrap() };
        guarded.bootstrap().await;
        guarded.rbac.synced().await;
        guarded
    }

    fn client(&self) -> Client {
        Client::new(self.server.delegate.clone())
    }

    async fn bootstrap(&self) {
        let context = Lifecycle::default().hook_context();
        bootstrap::hook(self.client(), bootstrap::Gates::new())(context).await.unwrap();
    }

    /// Sends a request of a user (`name`, or `name,group,...`) past the authorizer.
    async fn send(&self, user: &str, what: &str, body: &str) -> (u16, String) {
        let (method, uri) = what.split_once(' ').unwrap();
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let (what, headers) = (format!("{method} {RBAC}{uri}"), [("content-type", content_type)]);
        let body = body.to_owned().into();
        let response = self.server.send_as(Some(user_of(user)), &what, &headers, body).await;
        let code = response.status().as_u16();
        let text = String::from_utf8_lossy(&response.body().bytes().unwrap()).into_owned();
        (code, text)
    }

    async fn ok(&self, user: &str, what: &str, body: &str) -> String {
        let (code, text) = self.send(user, what, body).await;
        assert!((200..300).contains(&code), "{user} {what}: {text}");
        text
    }

    /// The message of a refusal.
    async fn refused(&self, user: &str, what: &str, body: &str, code: u16) -> String {
        let (found, text) = self.send(user, what, body).await;
        assert_eq!(found, code, "{user} {what}: {text}");
        let status =
            kevel_codec::json::decode_any(text.as_bytes(), kevel_codec::json::Unknown::Ignore);
        status.unwrap().value.str_at(&["message"]).to_owned()
    }

    async fn decision(&self, user: &str, what: &str) -> Decision {
        let (method, uri) = what.split_once(' ').unwrap();
        let info = RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap()).unwrap();
        self.rbac.authorize(&Attributes::of(&info, &user_of(user))).await.decision
    }

    /// Waits until the authorizer has heard of a change.
    async fn becomes(&self, user: &str, what: &str, decision: Decision) {
        let decided = async || self.decision(user, what).await == decision;
        until(decided).await;
    }
}

fn user_of(text: &str) -> User {
    let mut parts = text.split(',').map(str::to_owned);
    User { name: parts.next().unwrap_or_default(), groups: parts.collect(), ..User::default() }
}

const ADMIN: &str = "admin,system:masters";

fn role(name: &str, rules: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"rules":[{rules}]}}"#)
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"subjects":[{{"kind":"User","name":"{user}"}}],"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"{kind}","name":"{role}"}}}}"#
    )
}

const PODS: &str = r#"{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}"#;

#[tokio::test]
async fn a_new_cluster_knows_what_its_components_may_do() {
    let server = Guarded::start().await;
    for (user, what, decision) in [
        (ADMIN, "DELETE /api/v1/nodes/a", Decision::Allow),
        ("system:kube-scheduler", "GET /api/v1/pods", Decision::Allow),
        ("system:kube-scheduler", "GET /api/v1/secrets", Decision::NoOpinion),
        (
            "system:serviceaccount:kube-system:namespace-controller",
            "DELETE /api/v1/namespaces/a",
            Decision::Allow,
        ),
        ("jane,system:authenticated", "GET /api", Decision::Allow),
        ("jane,system:authenticated", "GET /apis/apps", Decision::Allow),
        ("jane,system:authenticated", "GET /api/v1/pods", Decision::NoOpinion),
        ("system:anonymous,system:unauthenticated", "GET /version", Decision::Allow),
        ("system:anonymous,system:unauthenticated", "GET /api", Decision::NoOpinion),
    ] {
        server.becomes(user, what, decision).await;
    }
}

#[tokio::test]
async fn the_policy_is_completed_at_every_start() {
    let server = Guarded::start().await;
    let node = "/clusterroles/system:basic-user";
    let before = server.ok(ADMIN, &format!("GET {node}"), "").await;
    // A second start changes nothing.
    server.bootstrap().await;
    assert_eq!(server.ok(ADMIN, &format!("GET {node}"), "").await, before);
    // Rules that were taken away come back; those that were added stay.
    server.ok(ADMIN, &format!("PATCH {node}"), &format!(r#"{{"rules":[{PODS}]}}"#)).await;
    server.ok(ADMIN, "DELETE /clusterrolebindings/system:discovery", "").await;
    let moved = binding("system:kube-dns", "ClusterRole", "view", "jane");
    server.ok(ADMIN, "DELETE /clusterrolebindings/system:kube-dns", "").await;
    server.ok(ADMIN, "POST /clusterrolebindings", &moved).await;
    server.bootstrap().await;
    let after = server.ok(ADMIN, &format!("GET {node}"), "").await;
    assert!(after.contains(r#""resources":["pods"]"#), "{after}");
    assert!(after.contains(r#""resources":["selfsubjectreviews"]"#), "{after}");
    server.ok(ADMIN, "GET /clusterrolebindings/system:discovery", "").await;
    let back = server.ok(ADMIN, "GET /clusterrolebindings/system:kube-dns", "").await;
    assert!(back.contains(r#""name":"system:kube-dns"}"#) && !back.contains("jane"), "{back}");
    // What says so is left alone.
    let keep = r#"{"rules":[],"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}"#;
    server.ok(ADMIN, &format!("PATCH {node}"), keep).await;
    let before = server.ok(ADMIN, &format!("GET {node}"), "").await;
    server.bootstrap().await;
    assert_eq!(server.ok(ADMIN, &format!("GET {node}"), "").await, before);
}

#[tokio::test]
async fn changes_are_heard_of() {
    let server = Guarded::start().await;
    let what = "GET /api/v1/namespaces/kube-public/pods";
    assert_eq!(server.decision("jane", what).await, Decision::NoOpinion);
    let path = "/namespaces/kube-public";
    server
        .ok(ADMIN, &format!("POST {path}/rolebindings"), &binding("b", "Role", "r", "jane"))
        .await;
    server.ok(ADMIN, &format!("POST {path}/roles"), &role("r", PODS)).await;
    server.becomes("jane", what, Decision::Allow).await;
    server.ok(ADMIN, &format!("PATCH {path}/roles/r"), r#"{"rules":[]}"#).await;
    server.becomes("jane", what, Decision::NoOpinion).await;
    server.ok(ADMIN, &format!("PATCH {path}/roles/r"), &format!(r#"{{"rules":[{PODS}]}}"#)).await;
    server.becomes("jane", what, Decision::Allow).await;
    server.ok(ADMIN, &format!("DELETE {path}/rolebindings/b"), "").await;
    server.becomes("jane", what, Decision::NoOpinion).await;
}

#[tokio::test]
async fn granting_needs_the_granted_permissions() {
    let server = Guarded::start().await;
    let path = "/namespaces/kube-public";
    let roles = format!("POST {path}/roles");
    let bindings = format!("POST {path}/rolebindings");
    let more = r#"{"verbs":["get","create","delete"],"apiGroups":["","apps"],"resources":["pods"]},{"verbs":["get"],"nonResourceURLs":["/x"]}"#;
    let message = server.refused("jane,dev,ops", &roles, &role("r", more), 403).await;
    let asks = r#"user "jane" (groups=["dev" "ops"]) is attempting to grant RBAC permissions not currently held:"#;
    assert_eq!(
        message,
        format!(
            "roles.rbac.authorization.k8s.io \"r\" is forbidden: {asks}\n\
             {{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"create\" \"delete\"]}}\n\
             {{APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"create\" \"delete\"]}}\n\
             {{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}}"
        )
    );
    // A user with a permission may grant it, at once after having got it.
    server.ok(ADMIN, "POST /clusterroles", &role("pods", PODS)).await;
    server.ok(ADMIN, &bindings, &binding("jane", "ClusterRole", "pods", "jane")).await;
    server.ok("jane", &roles, &role("r", PODS)).await;
    server.ok("jane", &bindings, &binding("joe", "Role", "r", "joe")).await;
    server.ok("jane", &bindings, &binding("jim", "ClusterRole", "pods", "jim")).await;
    // There, not elsewhere, and not more.
    let elsewhere = server
        .refused(
            "jane",
            "POST /clusterrolebindings",
            &binding("b", "ClusterRole", "pods", "joe"),
            403,
        )
        .await;
    assert!(elsewhere.starts_with(r#"clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden: user "jane" (groups=[]) is"#), "{elsewhere}");
    let wider = format!(r#"{{"rules":[{PODS},{more}]}}"#);
    let wider = server.refused("jane", &format!("PATCH {path}/roles/r"), &wider, 403).await;
    assert!(
        wider.contains(r#"{APIGroups:[""], Resources:["pods"], Verbs:["create" "delete"]}"#),
        "{wider}"
    );
    let missing =
        server.refused("jane", &bindings, &binding("b", "Role", "none", "joe"), 404).await;
    assert_eq!(missing, r#"roles.rbac.authorization.k8s.io "none" not found"#);
    // A collector's changes pass, whatever the role holds.
    server.ok(ADMIN, "POST /clusterroles", &role("strong", more)).await;
    let collected = r#"{"metadata":{"finalizers":["a.b/c"]}}"#;
    server.ok("jane", "PATCH /clusterroles/strong", collected).await;
    server
        .refused("jane", "PATCH /clusterroles/strong", r#"{"metadata":{"labels":{"a":"b"}}}"#, 403)
        .await;
}

#[tokio::test]
async fn roles_of_too_many_permissions_are_refused() {
    let server = Guarded::start().await;
    let names =
        |what: &str| (0..30).map(|n| format!("\"{what}{n}\"")).collect::<Vec<_>>().join(",");
    let rule = format!(
        r#"{{"verbs":[{}],"apiGroups":[{}],"resources":[{}]}}"#,
        names("v"),
        names("g"),
        names("r")
    );
    let roles = "POST /namespaces/kube-public/roles";
    let message = server.refused("jane", roles, &role("r", &rule), 403).await;
    assert!(message.ends_with("not currently held:\nmore than 20000 permissions"), "{message}");
}

#[tokio::test]
async fn aggregation_is_added_and_removed_by_administrators_only() {
    let server = Guarded::start().await;
    let aggregated = |name: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"aggregationRule":{{"clusterRoleSelectors":[{{"matchLabels":{{"{name}":"x"}}}}]}}}}"#
        )
    };
    server.ok(ADMIN, "POST /clusterroles", &aggregated("gathered")).await;
    let expected = "must have cluster-admin privileges to use the aggregationRule";
    for (what, body) in [
        ("POST /clusterroles", aggregated("new")),
        ("PATCH /clusterroles/gathered", r#"{"aggregationRule":null}"#.to_owned()),
    ] {
        let message = server.refused("jane", what, &body, 403).await;
        assert!(message.ends_with(expected), "{what}: {message}");
    }
    server.ok(ADMIN, "PATCH /clusterroles/gathered", r#"{"aggregationRule":null}"#).await;
}

#[tokio::test]
async fn some_may_go_beyond_what_they_have() {
    let server = Guarded::start().await;
    let rbac = |verb: &str, resource: &str, names: &str| {
        format!(
            r#"{{"verbs":["{verb}"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["{resource}"]{names}}}"#
        )
    };
    let everything = r#"{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}"#;
    for (name, rules) in [
        ("escalate", rbac("escalate", "clusterroles", "")),
        ("bind", rbac("bind", "clusterroles", r#","resourceNames":["view"]"#)),
        ("everything", everything.to_owned()),
        ("paths", r#"{"verbs":["*"],"nonResourceURLs":["*"]}"#.to_owned()),
    ] {
        server.ok(ADMIN, "POST /clusterroles", &role(name, &rules)).await;
        server
            .ok(ADMIN, "POST /clusterrolebindings", &binding(name, "ClusterRole", name, name))
            .await;
    }
    server.becomes("everything", "GET /api/v1/pods", Decision::Allow).await;
    server.becomes("paths", "GET /x", Decision::Allow).await;
    server.ok("escalate", "POST /clusterroles", &role("a", everything)).await;
    server.refused("bind", "POST /clusterroles", &role("b", everything), 403).await;
    let bind = |role: &str| binding(&format!("b-{role}"), "ClusterRole", role, "joe");
    server.ok("bind", "POST /clusterrolebindings", &bind("view")).await;
    server.refused("bind", "POST /clusterrolebindings", &bind("escalate"), 403).await;
    server.refused("escalate", "POST /clusterrolebindings", &bind("bind"), 403).await;
    // A role that gathers others' rules takes all there is, paths included.
    let gathers = r#"{"metadata":{"name":"g"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}"#;
    let refused = server.refused("joe", "POST /clusterroles", gathers, 403).await;
    assert_eq!(
        refused,
        r#"clusterroles.rbac.authorization.k8s.io "g" is forbidden: must have cluster-admin privileges to use the aggregationRule"#
    );
    server.ok("everything", "POST /clusterroles", gathers).await;
}
