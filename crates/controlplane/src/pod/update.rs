//! What may change of a pod.

use std::collections::HashSet;

use kevel_api::value::{Map, Value, equivalent};

use super::{Options, annotations, metadata_and_spec, toleration};
use crate::validation::Field;

/// What an update may change, as the reference says it.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
                          `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                          existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to \
                          be set to 1 if it was previously negative)";

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

pub fn check(pod: Field, old: Field) {
    let options = Options::of_pod(old);
    let (metadata, old_metadata) = (pod.at("metadata"), old.at("metadata"));
    let notes = metadata.at("annotations");
    metadata_and_spec(pod, &options);
    annotations::update(notes, old_metadata.at("annotations"));
    annotations::check(notes, pod.at("spec"), options.tolerates.deletion_cost);
    let (spec, old) = (pod.at("spec"), old.at("spec"));
    for list in ["containers", "initContainers"] {
        if !same_containers(spec.at(list), old.at(list)) {
            return;
        }
    }
    if !active_deadline(spec.at("activeDeadlineSeconds"), old.at("activeDeadlineSeconds")) {
        return;
    }
    toleration::only_added(spec.at("tolerations"), old.at("tolerations"));
    scheduling_gates(spec.at("schedulingGates"), old.at("schedulingGates"));
    if spec.same(&old) {
        return;
    }
    let gated = !old.at("schedulingGates").is_empty();
    if gated {
        node_selector(spec.at("nodeSelector"), old.at("nodeSelector"));
        let affinity = spec.at("affinity");
        node_affinity(affinity.at("nodeAffinity"), old.at("affinity").at("nodeAffinity"));
    }
    if changes_more(spec, old, gated) {
        spec.forbidden(format!("pod updates may not change fields other than {CHANGEABLE}\n"));
    }
}

fn same_containers(containers: Field, old: Field) -> bool {
    if containers.len() != old.len() {
        containers.forbidden("pod updates may not add or remove containers");
        return false;
    }
    for container in containers.items() {
        container.at("image").must("");
        super::container::padded_image(container);
    }
    true
}

/// A deadline may come nearer, and does not go away. Whether there is more to be checked.
fn active_deadline(deadline: Field, old: Field) -> bool {
    if deadline.is_absent() {
        if old.is_set() {
            let why = "must not update from a positive integer to nil value";
            deadline.invalid(why);
        }
        return true;
    }
    let before = deadline.found();
    deadline.in_range(0, i64::from(i32::MAX));
    if deadline.found() == before && old.is_set() && old.int() < deadline.int() {
        deadline.invalid("must be less than or equal to previous value");
    }
    deadline.found() == before
}

fn scheduling_gates(gates: Field, old: Field) {
    let known: HashSet<&str> = old.list().iter().map(|old| old.str_at(&["name"])).collect();
    for gate in gates.items() {
        let name = gate.at("name");
        if !known.contains(name.str()) {
            name.forbidden(format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.str()
            ));
        }
    }
}

fn node_selector(selector: Field, old: Field) {
    if old.entries().any(|(key, value)| !selector.key(key).same(&value)) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        selector.invalid(why);
    }
}

fn node_affinity(affinity: Field, old: Field) {
    let old = old.at(REQUIRED);
    if affinity.same(&old) || old.is_absent() {
        return;
    }
    let required = affinity.at(REQUIRED);
    let (terms, old) = (required.at("nodeSelectorTerms"), old.at("nodeSelectorTerms"));
    if !old.is_empty() && old.len() != terms.len() {
        return terms
            .invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed");
    }
    for (term, old) in terms.items().zip(old.items()) {
        if !only_adds(term, old) {
            term.invalid("only additions are allowed (no mutations or deletions)");
        }
    }
}

fn only_adds(term: Field, old: Field) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    if lists.iter().all(|list| old.at(list).is_empty()) {
        return lists.iter().all(|list| term.at(list).is_empty());
    }
    lists.iter().all(|list| {
        let (new, old) = (term.at(list).list(), old.at(list).list());
        new.len() >= old.len() && new.iter().zip(old).all(|(a, b)| equivalent(Some(a), Some(b)))
    })
}

/// Whether something else changes than what may.
fn changes_more(spec: Field, old: Field, gated: bool) -> bool {
    let keys = old.keys().chain(spec.keys().filter(|key| old.at(key).is_absent()));
    let changed = |key: &str| {
        let (new, old) = (spec.at(key), old.at(key));
        match key {
            "activeDeadlineSeconds" | "schedulingGates" | "tolerations" => false,
            "containers" | "initContainers" => {
                let pairs = new.list().iter().zip(old.list());
                !pairs.into_iter().all(|(a, b)| equal_but(a, b, "image"))
            }
            "terminationGracePeriodSeconds" if old.int() < 0 && new.int() == 1 => false,
            "nodeSelector" if gated => false,
            "affinity" if gated => {
                let (new, old) = (new.get(), old.get());
                let empty = Value::from(Map::new());
                !equal_but(new.unwrap_or(&empty), old.unwrap_or(&empty), "nodeAffinity")
            }
            _ => !new.same(&old),
        }
    };
    keys.into_iter().any(changed)
}

fn equal_but(a: &Value, b: &Value, field: &str) -> bool {
    let (Some(a), Some(b)) = (a.as_map(), b.as_map()) else { return a == b };
    let half = |a: &Map, b: &Map| {
        let mut fields = a.iter().filter(|(key, _)| *key != field);
        fields.all(|(key, value)| equivalent(Some(value), b.get(key)))
    };
    half(a, b) && half(b, a)
}
