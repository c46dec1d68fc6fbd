//! Tests of the validation of custom objects, with the messages of the reference.

#![allow(clippy::unwrap_used)]

mod common;

use common::{json, printed, validator};
use kevel_api::field_error::{FieldErrorKind, Path};
use kevel_extensions::schema::{REQUEST_BUDGET, blocks_rules};

/// Validates new objects whose only field `x` has a schema: pairs of value and errors.
fn check(schema: &str, cases: &[(&str, &[&str])]) {
    let validator = validator(&format!(r#"{{"type": "object", "properties": {{"x": {schema}}}}}"#));
    for (value, expected) in cases {
        let object = json(&format!(r#"{{"x": {value}}}"#));
        let errors = validator.validate(&Path::NONE, &object, None);
        assert_eq!(printed(&errors), *expected, "{value} of {schema}");
    }
}

#[test]
fn types() {
    check(
        r#"{"type": "integer"}"#,
        &[
            ("1", &[]),
            ("2.0", &[]),
            (
                "\"a\"",
                &[r#"x: Invalid value: "string": x in body must be of type integer: "string""#],
            ),
            ("null", &[r#"x: Invalid value: "null": x in body must be of type integer: "null""#]),
            (
                "1.5",
                &[
                    r#"x: Invalid value: "number": x in body must be of type integer: "number""#,
                    r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in x"#,
                ],
            ),
        ],
    );
    check(r#"{"type": "string", "nullable": true}"#, &[("null", &[]), ("\"\"", &[])]);
    check(
        r#"{"x-kubernetes-int-or-string": true}"#,
        &[
            ("1", &[]),
            ("\"50%\"", &[]),
            (
                "true",
                &[
                    r#"x: Invalid value: "boolean": x in body must be of type integer,string: "boolean""#,
                ],
            ),
        ],
    );
    check(
        r#"{"type": "object", "additionalProperties": {"type": "boolean"}}"#,
        &[
            (r#"{"a": true}"#, &[]),
            (
                r#"{"a": 1}"#,
                &[
                    r#"x.a: Invalid value: "integer": x.a in body must be of type boolean: "integer""#,
                ],
            ),
        ],
    );
    check(r#"{"x-kubernetes-preserve-unknown-fields": true}"#, &[(r#"[{"a": null}, 1]"#, &[])]);
}

#[test]
fn numbers() {
    check(
        r#"{"type": "integer", "minimum": 1, "maximum": 5, "exclusiveMaximum": true, "multipleOf": 2}"#,
        &[
            ("2", &[]),
            ("0", &["x: Invalid value: 0: x in body should be greater than or equal to 1"]),
            (
                "5",
                &[
                    "x: Invalid value: 5: x in body should be a multiple of 2",
                    "x: Invalid value: 5: x in body should be less than 5",
                ],
            ),
        ],
    );
    check(
        r#"{"type": "number", "maximum": 2.5, "multipleOf": 0.5}"#,
        &[
            ("1.5", &[]),
            (
                "2.75",
                &[
                    "x: Invalid value: 2.75: x in body should be a multiple of 0.5",
                    "x: Invalid value: 2.75: x in body should be less than or equal to 2.5",
                ],
            ),
        ],
    );
    check(
        r#"{"type": "integer", "format": "int32"}"#,
        &[(
            "2147483648",
            &[
                r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in x"#,
            ],
        )],
    );
}

#[test]
fn strings() {
    check(
        r#"{"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"}"#,
        &[
            ("\"ab\"", &[]),
            // The limit counts characters, although the message says bytes.
            ("\"ééé\"", &["x: Invalid value: \"ééé\": x in body should match '^[a-z]+$'"]),
            ("\"abcd\"", &["x: Too long: may not be more than 3 bytes"]),
            ("\"a\"", &["x: Invalid value: \"a\": x in body should be at least 2 chars long"]),
        ],
    );
    check(
        r#"{"type": "string", "enum": ["fast", "slow"]}"#,
        &[
            ("\"fast\"", &[]),
            ("\"turbo\"", &[r#"x: Unsupported value: "turbo": supported values: "fast", "slow""#]),
        ],
    );
    check(
        r#"{"type": "string", "format": "date"}"#,
        &[
            ("\"2024-02-29\"", &[]),
            (
                "\"2023-02-29\"",
                &[
                    r#"x: Invalid value: "2023-02-29": x in body must be of type date: "2023-02-29""#,
                ],
            ),
        ],
    );
    check(r#"{"type": "string", "format": "of no known sort"}"#, &[("\"a\"", &[])]);
}

#[test]
fn lists_and_objects() {
    check(
        r#"{"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}}"#,
        &[
            ("[1, 2]", &[]),
            ("[]", &["x: Invalid value: 0: x in body should have at least 1 items"]),
            ("[1, 2, 3]", &["x: Too many: 3: must have at most 2 items"]),
            (
                r#"[1, "a"]"#,
                &[
                    r#"x[1]: Invalid value: "string": x[1] in body must be of type integer: "string""#,
                ],
            ),
        ],
    );
    check(
        r#"{"type": "object", "required": ["a", "b"], "maxProperties": 2,
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}"#,
        &[
            (r#"{"a": 1, "b": 2}"#, &[]),
            (r#"{"a": 1}"#, &["x.b: Required value"]),
            (r#"{"a": 1, "b": 2, "c": 3}"#, &["x: Too many: 3: must have at most 2 items"]),
        ],
    );
    check(
        r#"{"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}"#,
        &[(r#"["a", "b"]"#, &[]), (r#"["a", "b", "a", "a"]"#, &[r#"x[2]: Duplicate value: "a""#])],
    );
    check(
        r#"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}"#,
        &[
            (r#"[{"k": "a"}, {"k": "b"}]"#, &[]),
            (r#"[{"k": "a"}, {"k": "a"}]"#, &[r#"x[1]: Duplicate value: {"k":"a"}"#]),
            (r#"[{}, {}]"#, &[r#"x[1]: Duplicate value: {}"#]),
        ],
    );
}

#[test]
fn combinations() {
    check(
        r#"{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}"#,
        &[
            (r#"{"a": 1}"#, &[]),
            (
                r#"{"a": 1, "b": 1}"#,
                &[
                    r#"<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
                ],
            ),
            (
                "{}",
                &[
                    r#"<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid"#,
                    "x.a: Required value",
                ],
            ),
        ],
    );
    // Of several failing alternatives, the best match is reported.
    check(
        r#"{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}},
            "anyOf": [{"required": ["z"]}, {"properties": {"a": {"properties": {"b": {"minimum": 3}}}}}]}"#,
        &[(
            r#"{"a": {"b": 1}}"#,
            &[
                r#"<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)"#,
                "x.a.b: Invalid value: 1: x.a.b in body should be greater than or equal to 3",
            ],
        )],
    );
    check(
        r#"{"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 5}], "not": {"enum": [2]}}"#,
        &[
            ("3", &[]),
            (
                "0",
                &[
                    "x: Invalid value: 0: x in body should be greater than or equal to 1",
                    r#"<nil>: Invalid value: "": "x" must validate all the schemas (allOf)"#,
                ],
            ),
            ("2", &[r#"<nil>: Invalid value: "": "x" must not validate the schema (not)"#]),
        ],
    );
}

#[test]
fn objects_inside_objects() {
    check(
        r#"{"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true}"#,
        &[
            (r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}"#, &[]),
            (r#"{"kind": "Pod"}"#, &["x.apiVersion: Required value"]),
            (
                r#"{"apiVersion": "a/b/c", "kind": ""}"#,
                &[
                    r#"x.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
                    r#"x.kind: Invalid value: "": must not be empty"#,
                ],
            ),
            (
                r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}}"#,
                &[r#"x.metadata.name: Invalid value: "a/b": may not contain '/'"#],
            ),
            (
                r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": 1}}"#,
                &[
                    r#"x.metadata: Invalid value: {"labels":1}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string"#,
                ],
            ),
        ],
    );
}

/// Ratcheting: unchanged invalid values are not reported.
#[test]
fn updates() {
    let validator = validator(
        r#"{"type": "object", "properties": {
            "a": {"type": "integer", "minimum": 5},
            "list": {"type": "array", "items": {"type": "integer", "minimum": 5}},
            "map": {"type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {
                        "k": {"type": "string"}, "v": {"type": "integer", "minimum": 5}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "many": {"type": "object", "minProperties": 2,
                     "additionalProperties": {"type": "integer"}},
            "kind": {"type": "string", "enum": ["Bar"]}}}"#,
    );
    for (old, new, expected) in [
        (r#"{"a": 1}"#, r#"{"a": 1}"#, vec![]),
        (
            r#"{"a": 1}"#,
            r#"{"a": 2}"#,
            vec!["a: Invalid value: 2: a in body should be greater than or equal to 5"],
        ),
        // Elements of a list can be correlated only in lists of type map.
        (r#"{"list": [1]}"#, r#"{"list": [1]}"#, vec![]),
        (
            r#"{"list": [1]}"#,
            r#"{"list": [1, 6]}"#,
            vec!["list[0]: Invalid value: 1: list[0] in body should be greater than or equal to 5"],
        ),
        (
            r#"{"map": [{"k": "a", "v": 1}]}"#,
            r#"{"map": [{"k": "b", "v": 6}, {"k": "a", "v": 1}]}"#,
            vec![],
        ),
        (r#"{"set": ["a", "a"]}"#, r#"{"set": ["a", "a", "b", "b"]}"#, vec![]),
        (r#"{"set": ["a"]}"#, r#"{"set": ["a", "a"]}"#, vec![r#"set[1]: Duplicate value: "a""#]),
        (r#"{"many": {"x": 1}}"#, r#"{"many": {"x": 1}}"#, vec![]),
        (
            r#"{"many": {"x": 1}}"#,
            r#"{"many": {}}"#,
            vec!["many: Invalid value: 0: many in body should have at least 2 properties"],
        ),
        // The kind is not ratcheted.
        (
            r#"{"kind": "Foo", "a": 6}"#,
            r#"{"kind": "Foo", "a": 7}"#,
            vec![r#"kind: Unsupported value: "Foo": supported values: "Bar""#],
        ),
    ] {
        let errors = validator.validate(&Path::NONE, &json(new), Some(&json(old)));
        assert_eq!(printed(&errors), expected, "{old} to {new}");
    }
}

#[test]
fn the_status_alone() {
    let validator = validator(
        r#"{"type": "object", "properties": {
            "spec": {"type": "integer"},
            "status": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}}}"#,
    );
    let (new, old) = (json(r#"{"spec": "x", "status": {"n": 0}}"#), json("{}"));
    assert_eq!(
        printed(&validator.status(&new, &old)),
        ["status.n: Invalid value: 0: n in body should be greater than or equal to 1"]
    );
    assert!(validator.status(&new, &new).is_empty());
}

#[test]
fn rules() {
    let validator = validator(
        r#"{"type": "object",
            "x-kubernetes-validations": [
                {"rule": "self.a < 10", "message": " too large "},
                {"rule": "!has(self.b) || self.b != 'x'", "reason": "FieldValueForbidden",
                 "messageExpression": "'not ' + self.b", "fieldPath": ".b"},
                {"rule": "self.metadata.name.size() < 3"}],
            "properties": {
                "a": {"type": "integer", "x-kubernetes-validations": [
                    {"rule": "self >= oldSelf", "message": "only grows"},
                    {"rule": "oldSelf.hasValue() || self == 1", "optionalOldSelf": true,
                     "message": "begins at one"}]},
                "b": {"type": "string"},
                "c": {"type": "integer", "x-kubernetes-validations": [
                    {"rule": "self > oldSelf", "message": "must grow"}]},
                "list": {"type": "array", "items": {"type": "integer",
                    "x-kubernetes-validations": [{"rule": "10 / self > 1"}]}},
                "map": {"type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {
                        "k": {"type": "string"}, "v": {"type": "integer",
                            "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}}}}"#,
    );
    assert!(validator.has_rules());
    let name = r#""metadata": {"name": "n"}"#;
    for (old, new, expected) in [
        ("", r#""a": 1"#, vec![]),
        ("", r#""a": 2"#, vec!["a: Invalid value: 2: begins at one"]),
        ("\"a\": 1", r#""a": 2"#, vec![]),
        ("\"a\": 3", r#""a": 2"#, vec!["a: Invalid value: 2: only grows"]),
        ("\"a\": 1", r#""a": 12"#, vec!["<nil>: Invalid value: too large"]),
        ("\"a\": 1", r#""a": 1, "b": "x""#, vec!["b: Forbidden: not x"]),
        (
            "\"a\": 1",
            r#""a": 1, "list": [1, 0, 20]"#,
            vec![
                r#"list[1]: Invalid value: "integer": division by zero evaluating rule: 10 / self > 1"#,
                "list[2]: Invalid value: 20: failed rule: 10 / self > 1",
            ],
        ),
        // Unchanged values are not validated again, except by transition rules.
        (r#""a": 1, "list": [20]"#, r#""a": 1, "list": [20]"#, vec![]),
        (r#""a": 1, "c": 1"#, r#""a": 1, "c": 1"#, vec!["c: Invalid value: 1: must grow"]),
        (
            r#""a": 1, "map": [{"k": "a", "v": 1}]"#,
            r#""a": 1, "map": [{"k": "b", "v": 3}, {"k": "a", "v": 2}]"#,
            vec!["map[1].v: Invalid value: 2: failed rule: self == oldSelf"],
        ),
    ] {
        let object = |fields: &str| json(&format!("{{{name}, {fields}}}"));
        let old_object = (!old.is_empty()).then(|| object(old));
        let errors = validator.rules(&object(new), old_object.as_ref(), REQUEST_BUDGET);
        assert_eq!(printed(&errors), expected, "{old} to {new}");
    }
}

#[test]
fn rules_have_a_budget() {
    let validator = validator(
        r#"{"type": "object", "properties": {"list": {"type": "array", "items": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self > 0"}]}}}}"#,
    );
    let object = json(r#"{"list": [1, 2, 3]}"#);
    assert!(validator.rules(&object, None, REQUEST_BUDGET).is_empty());
    let errors = validator.rules(&object, None, 5);
    assert_eq!(
        printed(&errors),
        ["list[2]: Invalid value: \"integer\": validation failed due to running out of cost \
             budget, no further validation rules will be run"]
    );
}

#[test]
fn rules_are_not_asked_about_objects_of_a_wrong_shape() {
    let validator = validator(
        r#"{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 1}}}"#,
    );
    let errors = validator.validate(&Path::NONE, &json("{}"), None);
    let blocking = blocks_rules(&errors).unwrap();
    assert_eq!(blocking.kind, FieldErrorKind::Invalid);
    assert!(blocking.to_string().starts_with("<nil>: Invalid value: null: some validation rules"));
    let errors = validator.validate(&Path::NONE, &json(r#"{"a": 0}"#), None);
    assert!(blocks_rules(&errors).is_none());
}

/// Tests `items` of a schema whose type is not array: CEL has no type for them.
#[test]
fn rules_of_items_below_an_object_cannot_be_compiled() {
    let item = r#"{"type": "object", "properties": {"n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.n < 5"}]}"#;
    let why = "rule compiler initialization error: failed to convert to declType for CEL validation rules";
    let old = json(r#"{"x": [{"n": 7}]}"#);
    for (schema, expected) in [
        (
            format!(r#"{{"type": "object", "items": {item}}}"#),
            vec![format!("x[0]: Invalid value: \"object\": {why}")],
        ),
        (
            format!(r#"{{"type": "string", "items": {item}}}"#),
            vec![format!("x[0]: Invalid value: \"object\": {why}")],
        ),
        // In an array they compile, and unchanged values are not validated.
        (format!(r#"{{"type": "array", "items": {item}}}"#), vec![]),
    ] {
        let schema = format!(r#"{{"type": "object", "properties": {{"x": {schema}}}}}"#);
        let validator = validator(&schema);
        let errors = validator.rules(&old, Some(&old), REQUEST_BUDGET);
        assert_eq!(printed(&errors), expected, "{schema}");
    }
}
