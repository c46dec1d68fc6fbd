//! Random graphs of owners, and what happens to them: the same for a seed on every server.

use serde_json::{Value, json};

use crate::random::source::Source;

/// Finalizer that no controller removes: holds a deleted object until [`GraphStep::Release`].
pub const HOLD: &str = "kevel.dev/hold";
/// Group of the custom kind.
pub const GROUP: &str = "graph.kevel.dev";
/// Namespaces of all graphs.
pub const NAMESPACES: [&str; 2] = ["graphs", "graphs-elsewhere"];
/// Label of every object of a graph.
pub const LABEL: &str = "kevel.dev/graph";

/// Most objects of a graph, and most steps before the release of all.
const OBJECTS: usize = 9;
const STEPS: usize = 4;

/// A kind of objects.
#[derive(Debug)]
pub struct GraphKind {
    /// Name of the kind.
    pub name: &'static str,
    /// API version.
    pub api_version: &'static str,
    /// Plural name.
    pub plural: &'static str,
    /// Whether objects are in a namespace.
    pub namespaced: bool,
}

const fn kind(
    name: &'static str,
    api_version: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> GraphKind {
    GraphKind { name, api_version, plural, namespaced }
}

/// The kinds of a graph.
pub const KINDS: [GraphKind; 6] = [
    kind("ConfigMap", "v1", "configmaps", true),
    kind("Secret", "v1", "secrets", true),
    kind("PodTemplate", "v1", "podtemplates", true),
    kind("Role", "rbac.authorization.k8s.io/v1", "roles", true),
    kind("ClusterRole", "rbac.authorization.k8s.io/v1", "clusterroles", false),
    kind("Knot", "graph.kevel.dev/v1", "knots", true),
];

/// A graph: objects with owners, and steps.
#[derive(Debug)]
pub struct DeletionGraph {
    /// Number, which is in the names of its objects.
    pub number: usize,
    /// Its objects, in the order of creation.
    pub objects: Vec<PlannedObject>,
    /// Changes, in order.
    pub steps: Vec<GraphStep>,
}

/// An object of a graph.
#[derive(Debug)]
pub struct PlannedObject {
    /// Index in [`KINDS`].
    pub kind: usize,
    /// Index in [`NAMESPACES`].
    pub namespace: usize,
    /// Whether it has [`HOLD`].
    pub held: bool,
    /// Its owners.
    pub owners: Vec<PlannedOwner>,
}

/// A reference to an owner.
#[derive(Debug)]
pub struct PlannedOwner {
    /// Object that is meant.
    pub object: usize,
    /// Correctness of the reference.
    pub truth: Truth,
    /// `blockOwnerDeletion`.
    pub blocks: bool,
}

/// Correctness of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// Name and UID are those of the object.
    Right,
    /// The name is right, the UID is that of no object.
    OtherUid,
    /// The UID is right, the name is that of no object.
    OtherName,
    /// Neither name nor UID are those of an object.
    Missing,
}

/// A change of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphStep {
    /// Deletes an object, with a propagation policy or the default one.
    Delete(usize, Option<&'static str>),
    /// Deletes an object, and creates one of the same name.
    Replace(usize),
    /// Removes [`HOLD`] from an object.
    Release(usize),
    /// Removes [`HOLD`] from all.
    ReleaseAll,
}

impl DeletionGraph {
    /// Graph of a seed and a number.
    pub fn random(seed: u64, number: usize) -> Self {
        let mut source = Source::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let count = 2 + source.below(OBJECTS - 1);
        let objects = (0..count).map(|own| planned(&mut source, own, count)).collect();
        let mut steps: Vec<_> =
            (0..=source.below(STEPS)).map(|_| step(&mut source, count)).collect();
        steps.push(GraphStep::ReleaseAll);
        DeletionGraph { number, objects, steps }
    }

    /// Name of an object.
    pub fn name(&self, object: usize) -> String {
        format!("graph-{}-{object}", self.number)
    }

    /// Object as it is created, without owners.
    pub fn object(&self, object: usize) -> Value {
        let planned = &self.objects[object];
        let kind = &KINDS[planned.kind];
        let mut body = json!({"apiVersion": kind.api_version, "kind": kind.name, "metadata": {
            "name": self.name(object), "labels": {LABEL: self.number.to_string()},
        }});
        if planned.held {
            body["metadata"]["finalizers"] = json!([HOLD]);
        }
        if kind.name == "PodTemplate" {
            body["template"] = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        }
        body
    }

    /// Path of the collection that an object is in.
    pub fn collection(&self, object: usize) -> String {
        let planned = &self.objects[object];
        let kind = &KINDS[planned.kind];
        if kind.namespaced {
            format!("{}/namespaces/{}/{}", kind.base(), planned.namespace(), kind.plural)
        } else {
            format!("{}/{}", kind.base(), kind.plural)
        }
    }

    /// Whether an object names an owner that is created after it: its owners are set when all are there.
    pub fn is_owned_late(&self, object: usize) -> bool {
        self.objects[object].owners.iter().any(|owner| owner.object >= object)
    }
}

impl GraphKind {
    /// Path of its API version.
    pub fn base(&self) -> String {
        let prefix = if self.api_version.contains('/') { "/apis" } else { "/api" };
        format!("{prefix}/{}", self.api_version)
    }
}

impl PlannedObject {
    fn namespace(&self) -> &'static str {
        NAMESPACES[self.namespace]
    }
}

fn planned(source: &mut Source, own: usize, count: usize) -> PlannedObject {
    // Most references go to earlier objects; others make cycles.
    let owners = match source.below(4) {
        0 => 0,
        1 | 2 => 1,
        _ => 2,
    };
    let mut named = Vec::new();
    for _ in 0..owners {
        let limit = if own == 0 || source.percent(25) { count } else { own };
        let object = source.below(limit);
        if named.iter().all(|owner: &PlannedOwner| owner.object != object) {
            let truth = match source.below(20) {
                0 => Truth::OtherUid,
                1 => Truth::OtherName,
                2 => Truth::Missing,
                _ => Truth::Right,
            };
            named.push(PlannedOwner { object, truth, blocks: source.percent(50) });
        }
    }
    PlannedObject {
        kind: source.below(KINDS.len()),
        namespace: usize::from(source.percent(8)),
        held: source.percent(20),
        owners: named,
    }
}

fn step(source: &mut Source, count: usize) -> GraphStep {
    let object = source.below(count);
    match source.below(10) {
        0 => GraphStep::Release(object),
        1 => GraphStep::Replace(object),
        _ => {
            let policies = [None, Some("Background"), Some("Foreground"), Some("Orphan")];
            GraphStep::Delete(object, policies[source.below(policies.len())])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_of_a_seed_have_every_form() {
        let graphs: Vec<_> = (0..200).map(|number| DeletionGraph::random(1, number)).collect();
        let owners = || graphs.iter().flat_map(|graph| &graph.objects).flat_map(|o| &o.owners);
        for truth in [Truth::Right, Truth::OtherUid, Truth::OtherName, Truth::Missing] {
            assert!(owners().filter(|owner| owner.truth == truth).count() > 20, "{truth:?}");
        }
        let late =
            |graph: &DeletionGraph| (0..graph.objects.len()).any(|own| graph.is_owned_late(own));
        assert!(graphs.iter().filter(|graph| late(graph)).count() > 20);
        let steps = || graphs.iter().flat_map(|graph| &graph.steps);
        for policy in [None, Some("Background"), Some("Foreground"), Some("Orphan")] {
            let with = steps()
                .filter(|step| matches!(step, GraphStep::Delete(_, found) if *found == policy));
            assert!(with.count() > 20, "{policy:?}");
        }
        assert_eq!(steps().filter(|step| **step == GraphStep::ReleaseAll).count(), 200);
    }
}
