//! Reconciliation of default roles and bindings (upstream: ReconcileRoleOptions).

use kevel_api::value::{Map, Value};

use super::policy::AUTOUPDATE;
use crate::rule::{self, Coverage};

/// Change that an object needs.
#[derive(Debug, PartialEq)]
pub(super) enum Change {
    None,
    /// The object needs a change, but is protected by the autoupdate annotation.
    Protected,
    Update(Value),
    Recreate,
}

/// Compares a role or binding with the desired one. Additional rules and subjects stay, and existing labels and
/// annotations take precedence.
pub(super) fn reconcile(existing: &Value, desired: &Value) -> Change {
    let protected = existing.str_at(&["metadata", "annotations", AUTOUPDATE]) == "false";
    let change = match desired.at(&["roleRef"]) {
        Some(role) if !same_role(existing, role) => Change::Recreate,
        _ => {
            let completed = complete(existing, desired);
            if completed == *existing { Change::None } else { Change::Update(completed) }
        }
    };
    if protected && change != Change::None { Change::Protected } else { change }
}

fn same_role(existing: &Value, role: &Value) -> bool {
    ["apiGroup", "kind", "name"]
        .iter()
        .all(|field| existing.str_at(&["roleRef", field]) == role.str_at(&[field]))
}

fn complete(existing: &Value, desired: &Value) -> Value {
    let mut object = existing.clone();
    for field in ["labels", "annotations"] {
        let wanted = desired.at(&["metadata", field]).and_then(Value::as_map);
        let Some(metadata) = object.at_mut(&["metadata"]).and_then(Value::as_map_mut) else {
            continue;
        };
        for (key, value) in wanted.into_iter().flat_map(Map::iter) {
            let texts = at_or_new(metadata, field, || Map::new().into()).as_map_mut();
            texts.map(|texts| texts.entry_or_insert_with(key, || value.clone()));
        }
    }
    let Some(map) = object.as_map_mut() else { return object };
    if desired.at(&["roleRef"]).is_some() {
        append(map, "subjects", missing_subjects(existing, desired));
        return object;
    }
    let held = rule::rules(existing);
    let missing =
        rule::uncovered([&Coverage::new(&held)], &rule::rules(desired)).unwrap_or_default();
    append(map, "rules", missing.iter().map(|rule| rule.to_value()).collect());
    match desired.at(&["aggregationRule"]) {
        // The aggregationRule is removed: the desired rules are complete without one.
        None => {
            map.remove("aggregationRule");
        }
        Some(_) => {
            let missing = missing_selectors(existing, desired);
            if !missing.is_empty() {
                let rule = at_or_new(map, "aggregationRule", || Map::new().into()).as_map_mut();
                rule.into_iter().for_each(|rule| append(rule, SELECTORS, missing.clone()));
            }
        }
    }
    object
}

const SELECTORS: &str = "clusterRoleSelectors";

fn missing_selectors(existing: &Value, desired: &Value) -> Vec<Value> {
    let path = ["aggregationRule", SELECTORS];
    let held = items(existing, &path);
    items(desired, &path).iter().filter(|selector| !held.contains(selector)).cloned().collect()
}

fn missing_subjects(existing: &Value, desired: &Value) -> Vec<Value> {
    let same = |a: &Value, b: &Value| {
        ["kind", "apiGroup", "name", "namespace"].iter().all(|f| a.str_at(&[f]) == b.str_at(&[f]))
    };
    let held = items(existing, &["subjects"]);
    let missing = |subject: &&Value| !held.iter().any(|other| same(other, subject));
    items(desired, &["subjects"]).iter().filter(missing).cloned().collect()
}

fn items<'v>(object: &'v Value, path: &[&str]) -> &'v [Value] {
    object.at(path).and_then(Value::as_list).unwrap_or_default()
}

/// Adds items to a list, which is created if absent.
fn append(map: &mut Map, field: &str, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    if let Some(list) = at_or_new(map, field, || Value::List(Default::default())).as_list_mut() {
        list.extend(items);
    }
}

/// Value of a field, created if it is absent or null.
fn at_or_new<'m>(map: &'m mut Map, field: &str, make: impl Fn() -> Value) -> &'m mut Value {
    let value = map.entry_or_insert_with(field, &make);
    if value.is_null() {
        *value = make();
    }
    value
}
