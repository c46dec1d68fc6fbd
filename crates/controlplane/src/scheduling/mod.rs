//! Kinds Workload and PodGroup: groups of pods that are scheduled together.
//!
//! The rules are declarative in the reference: unchanged values are not checked again, and the form of a value is not
//! reported if the value may not change at all.

mod group;
pub mod pod_group;
pub mod workload;

use std::collections::HashSet;

use kevel_api::name::Problems;

use crate::validation::{Field, IMMUTABLE, null};

/// Reports that a field is immutable. Its value is not shown.
fn changed(field: Field) {
    field.invalid_as(null(), IMMUTABLE);
}

/// Checks that no key occurs twice.
fn unique(list: Field, key: &str) {
    let mut seen = HashSet::new();
    for item in list.items().filter(|item| !seen.insert(item.at(key).str())) {
        item.duplicate_as(item.bad_value_versioned());
    }
}

/// Checks that exactly one of some fields is set.
fn one_of(field: Field, members: &[&str]) {
    let quoted = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let set: Vec<&str> = members.iter().copied().filter(|name| field.at(name).is_set()).collect();
    match set.len() {
        0 => field.invalid_as("", format!("must specify one of: {}", quoted(members))),
        1 => {}
        _ => {
            let why = format!("must specify exactly one of: {}", quoted(members));
            field.invalid_as(format!("{{{}}}", set.join(", ")), why);
        }
    }
}

/// Checks the form of an optional text.
fn form_if_set(field: Field, problems: fn(&str) -> Problems) {
    if field.is_set() {
        field.form(problems);
    }
}
