//! Tests of limits: schemas and objects made to cost time, stack or memory.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{definition, definition_of, json, validator};
use kevel_api::field_error::{FieldError, Path};
use kevel_extensions::schema::{MAX_ERRORS, REQUEST_BUDGET};
use kevel_extensions::validation::{validate_create, validate_update};

/// Longest duration, generous for busy machines: unbounded work would take hours.
const LONGEST: Duration = Duration::from_secs(60);

fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = kevel_clock::monotonic_now();
    let result = run();
    assert!(start.elapsed() < LONGEST, "{what} took {:?}", start.elapsed());
    result
}

fn text(errors: &[FieldError]) -> usize {
    errors.iter().map(|error| error.to_string().len()).sum()
}

#[test]
fn schemas_nest_as_deep_as_json_does() {
    let depth = 480;
    let schema = format!(
        r#"{}{{"type": "string", "maxLength": 1}}{}"#,
        r#"{"type": "object", "properties": {"a": "#.repeat(depth),
        "}}".repeat(depth)
    );
    let definition = definition_of(&schema);
    assert!(validate_create(&definition).is_empty());
    assert!(validate_update(&definition, &definition).is_empty());
    let object = json(&format!("{}\"xx\"{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
    let errors = validator(&schema).validate(&Path::NONE, &object, Some(&object));
    // Unchanged values pass.
    assert!(errors.is_empty());
    let errors = validator(&schema).validate(&Path::NONE, &object, None);
    assert_eq!(errors.len(), 1);
}

#[test]
fn patterns_match_in_linear_time() {
    let validator = validator(
        r#"{"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}"#,
    );
    let object = json(&format!(r#"{{"a": "{}!"}}"#, "a".repeat(1 << 20)));
    let errors = timed("matching", || validator.validate(&Path::NONE, &object, None));
    assert_eq!(errors.len(), 1);
}

#[test]
fn patterns_are_bounded_in_size() {
    let properties: Vec<String> = (0..200)
        .map(|i| {
            let count = 1000 - i;
            format!(r#""p{i}": {{"type": "string", "pattern": "^\\p{{L}}{{{count}}}$"}}"#)
        })
        .collect();
    let schema = format!(r#"{{"type": "object", "properties": {{{}}}}}"#, properties.join(","));
    let errors = timed("reading", || validate_create(&definition_of(&schema)));
    assert!(errors.is_empty(), "{errors:?}");
    // Patterns are compiled on first use: to a thousand instructions, as in the reference.
    let values: Vec<String> =
        (0..200).map(|i| format!(r#""p{i}": "{}""#, "x".repeat(999))).collect();
    let object = json(&format!("{{{}}}", values.join(",")));
    let validator = validator(&schema);
    let errors = timed("compiling", || validator.validate(&Path::NONE, &object, None));
    assert_eq!(errors.len(), 199, "one of them has 999");
}

#[test]
fn errors_are_bounded_in_number_and_size() {
    let validator = validator(
        r#"{"type": "object", "properties": {
            "list": {"type": "array", "x-kubernetes-list-type": "set", "items": {
                "type": "integer", "maximum": 0, "x-kubernetes-validations": [{"rule": "self < 1"}]}},
            "map": {"type": "object", "additionalProperties": {
                "type": "object", "additionalProperties": {"type": "integer"}}}}}"#,
    );
    let numbers: Vec<String> = (0..200_000).map(|i| (i / 2 + 1).to_string()).collect();
    let object = json(&format!(r#"{{"list": [{}]}}"#, numbers.join(",")));
    let errors = timed("a long list", || validator.validate(&Path::NONE, &object, None));
    assert_eq!(errors.len(), 2 * MAX_ERRORS);
    let errors = timed("rules", || validator.rules(&object, None, REQUEST_BUDGET));
    assert!(errors.len() <= MAX_ERRORS);

    let entries: Vec<String> = (0..100_000).map(|i| format!(r#""{i}":"x""#)).collect();
    let key = "k".repeat(1 << 20);
    let object = json(&format!(r#"{{"map": {{"{key}": {{{}}}}}}}"#, entries.join(",")));
    let errors = timed("a long key", || validator.validate(&Path::NONE, &object, None));
    assert!(!errors.is_empty() && text(&errors) < 64 << 20, "{}", text(&errors));
}

#[test]
fn alternatives_are_bounded() {
    let many: Vec<String> = (0..5_000).map(|i| format!(r#"{{"enum": [{i}]}}"#)).collect();
    let schema = format!(
        r#"{{"type": "object", "properties": {{"list": {{"type": "array", "items": {{
            "type": "integer", "anyOf": [{}]}}}}}}}}"#,
        many.join(",")
    );
    let validator = validator(&schema);
    let numbers = vec!["-1"; 100_000].join(",");
    let object = json(&format!(r#"{{"list": [{numbers}]}}"#));
    let errors = timed("alternatives", || validator.validate(&Path::NONE, &object, None));
    assert!(!errors.is_empty() && errors.len() <= MAX_ERRORS);
}

#[test]
fn definitions_of_any_size() {
    // Versions must be looked up by name in constant time.
    let versions: Vec<String> = (0..20_000)
        .map(|i| format!(r#"{{"name": "v{i}", "served": true, "storage": {}}}"#, i == 0))
        .collect();
    let definition_of_versions = definition(&format!(r#""versions": [{}]"#, versions.join(",")));
    let errors = timed("versions", || validate_create(&definition_of_versions));
    assert!(!errors.is_empty());
    timed("versions", || validate_update(&definition_of_versions, &definition_of_versions));

    // Printed values must stay small.
    let properties: Vec<String> = (0..50_000).map(|i| format!(r#""{i}":{{}}"#)).collect();
    let schema = |kind: &str| {
        let properties = properties.join(",");
        format!(
            r#"{{"openAPIV3Schema": {{"type": "{kind}", "enum": [1], "properties": {{{properties}}}}}}}"#
        )
    };
    let versions = format!(
        r#""versions": [{{"name": "v1", "subresources": {{"status": {{}}}}, "schema": {}}},
                        {{"name": "v2", "schema": {}}}]"#,
        schema("object"),
        schema("array")
    );
    let errors = timed("wrong schemas", || validate_create(&definition(&versions)));
    assert!(errors.len() < 10 * MAX_ERRORS && text(&errors) < 64 << 20, "{}", text(&errors));

    let keys: Vec<String> = (0..50_000).map(|i| format!("\"{i}\"")).collect();
    let schema = format!(
        r#"{{"type": "object", "properties": {{"a": {{"type": "array",
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [{}],
            "items": {{"type": "object", "properties": {{"k": {{"type": "string"}}}}}}}}}}}}"#,
        keys.join(",")
    );
    let errors = timed("keys", || validate_create(&definition_of(&schema)));
    assert!(!errors.is_empty() && text(&errors) < 64 << 20, "{}", text(&errors));
}

/// Each default is validated by its own part of the schema, whose rules are compiled once.
#[test]
fn defaults_around_defaults() {
    let depth = 200;
    let rules: Vec<String> =
        (0..500).map(|i| format!(r#"{{"rule": "self != {i}", "message": "no"}}"#)).collect();
    let schema = format!(
        r#"{{"type": "object", "properties": {{"a": {}{{"type": "integer",
            "x-kubernetes-validations": [{}]}}{}}}}}"#,
        r#"{"type": "object", "default": {}, "properties": {"a": "#.repeat(depth),
        rules.join(","),
        "}}".repeat(depth)
    );
    let errors = timed("defaults", || validate_create(&definition_of(&schema)));
    assert!(errors.is_empty(), "{:?}", errors.first());
}
