//! Users of a token file, and the rights that RBAC gives them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire::Wire;
use crate::Result;
use crate::client::{Client, Request};

/// Time limit for rights to take effect.
const EFFECT_LIMIT: Duration = Duration::from_secs(30);

/// A user with rights. The name is also the token.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub name: &'static str,
    /// User name on the server.
    known_as: &'static str,
    groups: &'static str,
    rights: &'static [Right],
}

/// Verbs on resources, restricted to these names if there are any.
#[derive(Clone, Copy, Debug)]
struct Right {
    /// Namespace; empty for all.
    namespace: &'static str,
    verbs: &'static [&'static str],
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    names: &'static [&'static str],
}

const GROUPS: &[&str] = &["", "apps", "coordination.k8s.io", "x.io"];
const OBJECTS: &[&str] = &["configmaps", "secrets", "deployments", "leases", "things"];
const PARTS: &[&str] =
    &["deployments/scale", "deployments/status", "things/status", "things/scale"];
const READ: &[&str] = &["get", "list", "watch"];

/// User without a token: no header is sent.
pub const ANONYMOUS: &str = "anonymous";

const fn user(name: &'static str, rights: &'static [Right]) -> User {
    User { name, known_as: name, groups: "", rights }
}

/// Rights on objects in `a`.
const fn in_a(verbs: &'static [&'static str], names: &'static [&'static str]) -> Right {
    Right { namespace: "a", verbs, groups: GROUPS, resources: OBJECTS, names }
}

/// Right to impersonate.
const fn be(
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    names: &'static [&'static str],
) -> Right {
    Right { namespace: "", verbs: &["impersonate"], groups, resources, names }
}

const BE_GET_FOO: Right = be(&[""], &["users"], &["get-foo"]);

pub const USERS: [User; 23] = [
    User { name: "admin", known_as: "admin", groups: "system:masters", rights: &[] },
    // Discovery, and nothing else.
    user("none", &[]),
    user(ANONYMOUS, &[]),
    user("get-foo", &[in_a(&["get"], &["foo"])]),
    user("list-foo", &[in_a(&["list"], &["foo"])]),
    user("watch-foo", &[in_a(&["watch"], &["foo"])]),
    user("update-foo", &[in_a(&["update"], &["foo"])]),
    user("patch-foo", &[in_a(&["patch"], &["foo"])]),
    user("create-foo", &[in_a(&["create"], &["foo", "new"])]),
    user("create-patch-foo", &[in_a(&["create", "patch"], &["foo", "new"])]),
    user("create-update-foo", &[in_a(&["create", "update"], &["foo", "new"])]),
    user("delete-foo", &[in_a(&["delete", "deletecollection"], &["foo"])]),
    user("part-foo", &[Right { resources: PARTS, ..in_a(&["get", "update", "patch"], &["foo"]) }]),
    user("all-a", &[Right { groups: &["*"], resources: &["*"], ..in_a(&["*"], &[]) }]),
    user(
        "all-b",
        &[Right { namespace: "b", groups: &["*"], resources: &["*"], ..in_a(&["*"], &[]) }],
    ),
    user("read-all", &[Right { namespace: "", ..in_a(READ, &[]) }]),
    user(
        "wide-foo",
        &[Right {
            namespace: "",
            verbs: &["get", "list", "watch", "create", "update", "patch", "delete"],
            groups: GROUPS,
            resources: &["wides", "namespaces"],
            names: &["foo", "a"],
        }],
    ),
    User { name: "node", known_as: "system:node:n1", groups: "system:nodes", rights: &[] },
    user("be-user", &[BE_GET_FOO]),
    user("be-group", &[BE_GET_FOO, be(&[""], &["groups"], &["g1"])]),
    user("be-uid", &[BE_GET_FOO, be(&["authentication.k8s.io"], &["uids"], &["u1"])]),
    user(
        "be-extra",
        &[BE_GET_FOO, be(&["authentication.k8s.io"], &["userextras/scopes"], &["s1"])],
    ),
    user(
        "be-account",
        &[Right { namespace: "a", ..be(&[""], &["serviceaccounts"], &["default"]) }],
    ),
];

/// Content of `--token-auth-file`.
pub fn tokens() -> String {
    let known = USERS.iter().filter(|user| user.name != ANONYMOUS);
    let line = |user: &User| {
        let User { name, known_as, groups, .. } = user;
        format!("{name},{known_as},uid-{name},\"{groups}\"\n")
    };
    known.map(line).collect()
}

/// Grants all rights, and waits until they take effect.
pub async fn grant(client: &Client, wire: &Wire) -> Result<()> {
    for user in USERS {
        for (index, right) in user.rights.iter().enumerate() {
            let name = format!("{}-{index}", user.name);
            for (plural, object) in right.objects(&name, user.known_as) {
                let base = "/apis/rbac.authorization.k8s.io/v1";
                let path = match right.namespace {
                    "" => format!("{base}/cluster{plural}"),
                    namespace => format!("{base}/namespaces/{namespace}/{plural}"),
                };
                client.json(Request::post(path, &object)).await?;
            }
        }
    }
    let limit = Instant::now() + EFFECT_LIMIT;
    for user in USERS {
        for right in user.rights {
            until_allowed(wire, user.name, &right.review(), limit).await?;
        }
    }
    // Rights of a node depend on its pods.
    let secret = json!({"verb": "get", "resource": "secrets", "namespace": "a", "name": "foo"});
    until_allowed(wire, "node", &secret, limit).await
}

async fn until_allowed(wire: &Wire, who: &str, about: &Value, limit: Instant) -> Result<()> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": about},
    });
    while !wire.allows(who, &review).await? {
        if Instant::now() > limit {
            return Err(format!("{who} does not get the right to {about}").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

impl Right {
    /// Role and binding, each with its plural.
    fn objects(&self, name: &str, user: &str) -> [(&'static str, Value); 2] {
        let kind = if self.namespace.is_empty() { "ClusterRole" } else { "Role" };
        let group = "rbac.authorization.k8s.io";
        let mut rule =
            json!({"verbs": self.verbs, "apiGroups": self.groups, "resources": self.resources});
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        let role = json!({"metadata": {"name": name}, "rules": [rule]});
        let binding = json!({
            "metadata": {"name": name},
            "subjects": [{"kind": "User", "apiGroup": group, "name": user}],
            "roleRef": {"apiGroup": group, "kind": kind, "name": name},
        });
        [("roles", role), ("rolebindings", binding)]
    }

    /// An access that it allows, for a SelfSubjectAccessReview.
    fn review(&self) -> Value {
        let known = |text: &'static str| if text == "*" { "get" } else { text };
        let (resource, part) = self.resources[0].split_once('/').unwrap_or((self.resources[0], ""));
        json!({
            "verb": known(self.verbs[0]),
            "group": if self.groups[0] == "*" { "" } else { self.groups[0] },
            "resource": if resource == "*" { "pods" } else { resource },
            "subresource": part,
            "namespace": self.namespace,
            "name": self.names.first().unwrap_or(&""),
        })
    }
}
