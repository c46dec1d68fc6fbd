//! The cluster: a namespace, the user who administrates it, and another user in a namespace of its own.

use std::path::Path;
use std::sync::Arc;

use kevel_bench::probe::LoadProbe;
use kevel_conformance::Result;
use kevel_conformance::client::{Answer, Client, Request};
use kevel_conformance::control_plane::ControlPlane;
use serde_json::{Value, json};

/// Namespace of the attacker.
pub const NAMESPACE: &str = "hostile";
/// Names of users, which are their tokens too.
pub const ATTACKER: &str = "mallory";
pub const OTHER: &str = "victim";
/// Connections of the attacker: 8 requests at a time, and the streams of 400 watches.
const CONNECTIONS: usize = 8;
/// Part of the full size that `--short` fills.
const SHORT_PART: usize = 10;

/// The cluster.
#[derive(Debug)]
pub struct HostileCluster {
    pub admin: Client,
    /// Without a certificate: tokens say whose its requests are.
    pub client: Arc<Client>,
    pub probe: LoadProbe,
    short: bool,
}

/// Flags of the server: users by token.
pub fn flags(folder: &Path) -> Result<Vec<String>> {
    let file = folder.join("tokens.csv");
    std::fs::write(&file, format!("{ATTACKER},{ATTACKER},1\n{OTHER},{OTHER},2\n"))?;
    Ok(vec![format!("--token-auth-file={}", file.display())])
}

/// A request of the attacker.
pub fn by_attacker(request: Request) -> Request {
    request.with_header("authorization", &format!("Bearer {ATTACKER}"))
}

/// `/api/v1/namespaces/hostile/PLURAL`, or that of a group.
pub fn collection(group_version: &str, plural: &str) -> String {
    let root = if group_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{group_version}/namespaces/{NAMESPACE}/{plural}")
}

impl HostileCluster {
    /// Makes namespaces, users and what the other user reads.
    pub async fn prepare(plane: &ControlPlane, short: bool) -> Result<Self> {
        let admin = plane.client(1)?;
        let client = Client::anonymous(&plane.folder.join("pki"), plane.port, CONNECTIONS)?;
        for name in [NAMESPACE, OTHER] {
            let namespace = json!({"metadata": {"name": name}});
            admin.json(Request::post("/api/v1/namespaces", &namespace)).await?;
        }
        let quiet = format!("/api/v1/namespaces/{OTHER}/configmaps");
        admin.json(Request::post(&quiet, &json!({"metadata": {"name": "quiet"}}))).await?;
        let get = Request::get(format!("{quiet}/quiet"));
        let get = get.with_header("authorization", &format!("Bearer {OTHER}"));
        let probe = LoadProbe::new(plane, get)?;
        let world = HostileCluster { admin, client: Arc::new(client), probe, short };
        world.bind(NAMESPACE, ATTACKER).await?;
        world.bind(OTHER, OTHER).await?;
        let account = json!({"metadata": {"name": "default"}});
        // The server may make it by itself.
        world.admin.send(Request::post(collection("v1", "serviceaccounts"), &account)).await?;
        Ok(world)
    }

    /// Gives a user the rights of `admin` in a namespace, and waits until they are in effect. The roles that `admin` is
    /// made of are bound one by one: the controller that aggregates them does not run here.
    async fn bind(&self, namespace: &str, user: &str) -> Result<()> {
        let path =
            format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
        for part in ["admin", "edit", "view"] {
            let role = format!("system:aggregate-to-{part}");
            let binding = binding(part, "ClusterRole", &role, user);
            self.admin.json(Request::post(&path, &binding)).await?;
        }
        let secrets = format!("/api/v1/namespaces/{namespace}/secrets?limit=1");
        let list = Request::get(secrets).with_header("authorization", &format!("Bearer {user}"));
        self.until(list, 200).await
    }

    /// Gives the attacker all rights in its namespace: some kinds are not an `admin`'s to write.
    pub async fn grant_everything(&self) -> Result<()> {
        let rbac = "rbac.authorization.k8s.io/v1";
        let rule = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
        let role = json!({"metadata": {"name": "everything"}, "rules": [rule]});
        self.admin.json(Request::post(collection(rbac, "roles"), &role)).await?;
        let binding = binding("everything", "Role", "everything", ATTACKER);
        self.admin.json(Request::post(collection(rbac, "rolebindings"), &binding)).await?;
        self.until(by_attacker(Request::delete(collection("v1", "limitranges"))), 200).await
    }

    /// Repeats a request until it is answered with a code.
    pub async fn until(&self, request: Request, code: u16) -> Result<()> {
        let mut found = 0;
        for _ in 0..1000 {
            found = self.client.send(request.clone()).await?.code;
            if found == code {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Err(format!("{} is answered with {found}, not {code}", request.path).into())
    }

    /// A number or a size of a fill: all of it, or a part by `--short`.
    pub fn part(&self, full: usize) -> usize {
        if self.short { full.div_ceil(SHORT_PART) } else { full }
    }

    /// Whether a part is filled and sent only.
    pub fn is_short(&self) -> bool {
        self.short
    }

    /// Chooses from a list that belongs to a place in another one: all of it, or by `--short` every so many, others for
    /// each place.
    pub fn chosen<T>(&self, place: usize, all: Vec<T>) -> Vec<T> {
        let step = if self.short { SHORT_PART } else { 1 };
        all.into_iter().skip(place % step).step_by(step).collect()
    }

    /// Creates an object as the attacker.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Answer> {
        self.client.send(by_attacker(Request::post(path, object))).await
    }
}

/// A RoleBinding of a user.
pub fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({"metadata": {"name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}})
}
