//! Validation of pod updates: the few mutable fields.

use std::collections::HashSet;

use kevel_api::value::{Map, Value, equivalent};

use super::{Options, annotations, metadata_and_spec, toleration};
use crate::validation::Field;

/// Mutable fields, as the reference's message lists them.
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
    let rest = without_changeable(spec, old, gated);
    let rest = spec.with(Some(&rest));
    if !rest.same(&old) {
        spec.forbidden(format!(
            "pod updates may not change fields other than {CHANGEABLE}\n{}",
            rest.differences(&old)
        ));
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

/// Checks `activeDeadlineSeconds`, which may be set or lowered, but not removed. False if an error was reported.
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

/// The new spec with all mutable fields set to their old values.
fn without_changeable(spec: Field, old: Field, gated: bool) -> Value {
    let mut rest = spec.get().cloned().unwrap_or(Value::Null);
    let map = rest.make_map(&[]);
    for list in ["containers", "initContainers"] {
        let new = map.get_mut(list).and_then(Value::as_list_mut).into_iter().flatten();
        for (new, old) in new.zip(old.at(list).list()) {
            put(new.make_map(&[]), "image", old.at(&["image"]));
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        put(map, field, old.at(field).get());
    }
    let grace = "terminationGracePeriodSeconds";
    if old.at(grace).int() < 0 && spec.at(grace).int() == 1 {
        put(map, grace, old.at(grace).get());
    }
    if gated {
        put(map, "nodeSelector", old.at("nodeSelector").get());
        let had = old.at("affinity");
        let affinity = map.entry_or_insert_with("affinity", || Map::new().into()).make_map(&[]);
        put(affinity, "nodeAffinity", had.at("nodeAffinity").get());
        if affinity.is_empty() && had.is_absent() {
            map.remove("affinity");
        }
    }
    rest
}

fn put(map: &mut Map, field: &str, value: Option<&Value>) {
    match value {
        Some(value) => map.insert(field, value.clone()),
        None => map.remove(field),
    };
}
