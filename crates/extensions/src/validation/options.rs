//! Validation options, which depend on the old definition (upstream: validationOptions).

use std::collections::HashSet;

use kevel_api::field_error::Path;
use kevel_api::value::Value;

use super::conversion;
use super::defaults;
use super::definition::Definition;
use super::extensions::{list_keys, non_atomic_set};
use super::open_api_schema::{Demands, is_type};
use super::structural;
use super::version::MAX_SELECTABLE_FIELDS;
use crate::schema::props::Props;

/// Options of validating a definition.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub demands: Demands,
    /// Conversion webhooks must support a known version of ConversionReview.
    pub known_review_versions: bool,
    pub immutable_names: bool,
    /// Every version must have a schema.
    pub schemas: bool,
    pub structural: bool,
    pub pruned_defaults: bool,
    pub any_ca_bundle: bool,
    /// Versions with unchanged schemas.
    pub unchanged: HashSet<String>,
    /// Versions that may exceed the limit on selectable fields; the empty name stands for the shared list.
    pub many_selectable_fields: HashSet<String>,
}

impl Options {
    /// Options for a new definition: all rules apply, except that its CA bundle may be invalid.
    pub fn for_new() -> Self {
        Options {
            demands: Demands { types: true, atomic_sets: true, list_keys: true, rule_cost: true },
            known_review_versions: true,
            immutable_names: false,
            schemas: true,
            structural: true,
            pruned_defaults: true,
            any_ca_bundle: true,
            unchanged: HashSet::new(),
            many_selectable_fields: HashSet::new(),
        }
    }

    /// Options for an update: rules that the old definition violates do not apply.
    pub fn for_update(new: &Definition<'_>, old: &Definition<'_>) -> Self {
        let none = |broken: &mut dyn FnMut(Props<'_>) -> bool| {
            !old.schemas().any(|schema| schema.any(broken))
        };
        let is_structural = |schema: Props<'_>| {
            structural::unsupported(schema).is_none()
                && structural::check(&Path::NONE, schema).is_empty()
        };
        let unpruned = |schema: Props<'_>| is_structural(schema) && defaults::has_unpruned(schema);
        let established = old.is_condition_true("Established");
        Options {
            demands: Demands {
                types: none(&mut |schema| !schema.kind().is_empty() && !is_type(schema.kind())),
                atomic_sets: none(&mut |schema| non_atomic_set(schema).is_some()),
                list_keys: none(&mut |schema| !list_keys(&Path::NONE, schema).is_empty()),
                rule_cost: true,
            },
            known_review_versions: conversion::has_known_review_version(old),
            immutable_names: established,
            schemas: old.common.open_api().is_some()
                || old.versions.iter().all(|version| version.parts.open_api().is_some()),
            structural: old.schemas().all(is_structural),
            pruned_defaults: !old.schemas().any(unpruned),
            any_ca_bundle: !established || conversion::has_bad_ca_bundle(old),
            unchanged: unchanged_schemas(new, old),
            many_selectable_fields: many_selectable_fields(new, old),
        }
    }
}

fn unchanged_schemas(new: &Definition<'_>, old: &Definition<'_>) -> HashSet<String> {
    let versions = new.versions.iter().map(|version| version.name);
    let same = versions.filter(|name| new.schema_of(name) == old.schema_of(name));
    same.map(str::to_owned).collect()
}

fn many_selectable_fields(new: &Definition<'_>, old: &Definition<'_>) -> HashSet<String> {
    let is_kept = |new: Option<&Value>, old: Option<&Value>| {
        new == old
            && old.and_then(Value::as_list).is_some_and(|old| old.len() > MAX_SELECTABLE_FIELDS)
    };
    let mut kept = HashSet::new();
    if is_kept(new.common.selectable_fields, old.common.selectable_fields) {
        kept.insert(String::new());
    }
    for version in &new.versions {
        let before = old.version(version.name);
        let before = before.and_then(|before| before.parts.selectable_fields);
        if is_kept(version.parts.selectable_fields, before) {
            kept.insert(version.name.to_owned());
        }
    }
    kept
}
