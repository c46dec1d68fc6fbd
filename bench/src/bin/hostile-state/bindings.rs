//! A Role that is large, and is bound to many users: a change of it is told to all authorizers.

use kevel_conformance::Result;
use kevel_conformance::client::Request;
use serde_json::{Value, json};

use crate::fill::{StoredBytes, list, store};
use crate::table::CostTable;
use crate::world::{HostileCluster, OTHER, binding, collection};

pub const NAME: &str = "bindings";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
/// Bytes of rules and of subjects.
const LARGE: usize = 1_000_000;
const BINDINGS: usize = 8;

/// Fills, then changes the role and measures until the change is in effect.
pub async fn run(world: &HostileCluster, table: &mut CostTable) -> Result<()> {
    let (roles, bindings) = (collection(RBAC, "roles"), collection(RBAC, "rolebindings"));
    let size = world.part(LARGE);
    world.grant_everything().await?;
    let mut stored = store(world, &roles, &role(size, "pods"), size).await?;
    for number in 0..BINDINGS {
        let subjects = list(size, |index| {
            format!(r#"{{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"u{index}"}}"#)
        });
        let mut bound = binding(&format!("b{number}"), "Role", "large", OTHER);
        bound["subjects"] = subjects;
        let one = store(world, &bindings, &bound, size).await?;
        stored.objects += one.objects;
        stored.bytes += one.bytes;
    }
    // A user without other rights. A resource that there is not: not found is allowed.
    let own = binding("own", "Role", "large", OTHER);
    world.admin.json(Request::post(&bindings, &own)).await?;
    let marker = |name: &str| {
        let get = Request::get(collection("v1", name));
        get.with_header("authorization", &format!("Bearer {OTHER}"))
    };
    world.admin.json(Request::put(format!("{roles}/large"), &role(size, "before"))).await?;
    world.until(marker("before"), 404).await?;
    let change = async {
        world.admin.json(Request::put(format!("{roles}/large"), &role(size, "after"))).await?;
        world.until(marker("after"), 404).await
    };
    let (changed, load): (Result<()>, _) = world.probe.measure(change).await?;
    let wrong: Vec<String> = changed.err().map(|error| error.to_string()).into_iter().collect();
    let StoredBytes { objects, bytes } = stored;
    let note = format!("{objects} objects of {} KB stored, the role changed", bytes / 1000);
    table.add(NAME, &load, 1, &wrong, &note);
    Ok(())
}

/// A Role of rules that all differ, and of one that allows to list a resource.
fn role(size: usize, marker: &str) -> Value {
    let mut rules = list(size, |index| {
        format!(
            r#"{{"apiGroups":[""],"resources":["pods"],"resourceNames":["p{index}"],"verbs":["get"]}}"#
        )
    });
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({"apiGroups": [""], "resources": [marker], "verbs": ["list"]}));
    }
    json!({"metadata": {"name": "large"}, "rules": rules})
}
