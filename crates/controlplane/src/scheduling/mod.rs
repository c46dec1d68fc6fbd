//! Groups of pods that are scheduled together.
//!
//! The reference declares what holds for them beside their fields: what does not change is not checked
//! again, and what is wrong with the form of a value is not said when the value may not change at all.

mod group;
pub mod pod_group;
pub mod workload;

use std::collections::HashSet;

use kevel_api::name::Problems;

use crate::validation::{Field, IMMUTABLE, null};

/// Says that a field may not change. Its value is not shown.
fn changed(field: Field) {
    field.invalid_as(null(), IMMUTABLE);
}

/// Of each key one item.
fn unique(list: Field, key: &str) {
    let mut seen = HashSet::new();
    for item in list.items().filter(|item| !seen.insert(item.at(key).str())) {
        item.duplicate_as(item.bad_value_versioned());
    }
}

/// Exactly one of some fields.
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

/// A text of a certain form, where there is one.
fn form_if_set(field: Field, problems: fn(&str) -> Problems) {
    if field.is_set() {
        field.form(problems);
    }
}
