//! Tests of the validation of CustomResourceDefinitions, with the messages of the reference.

#![allow(clippy::unwrap_used)]

mod common;

use common::{definition, definition_of, printed};
use kevel_api::value::{Map, Value};
use kevel_extensions::validation::{
    non_structural, validate_create, validate_status_update, validate_update,
};

/// Checks definitions with one version whose only property `x` has a schema, and the errors; `@` stands for the path to
/// that schema.
fn check_schemas(cases: &[(&str, &[&str])]) {
    for (schema, expected) in cases {
        let whole = format!(r#"{{"type": "object", "properties": {{"x": {schema}}}}}"#);
        let path = "spec.validation.openAPIV3Schema.properties[x]";
        let expected: Vec<String> = expected.iter().map(|e| e.replacen('@', path, 1)).collect();
        let errors = validate_create(&definition_of(&whole));
        assert_eq!(printed(&errors), expected, "{schema}");
    }
}

const VERSION: &str = r#""versions": [{"name": "v1", "served": true, "storage": true,
    "schema": {"openAPIV3Schema": {"type": "object"}}}]"#;

#[test]
fn names_groups_and_scopes() {
    assert!(validate_create(&definition(VERSION)).is_empty());
    for (spec, expected) in [
        (
            r#""group": "nodots""#,
            vec![
                r#"metadata.name: Invalid value: "foos.example.com": must be spec.names.plural+"."+spec.group"#,
                r#"spec.group: Invalid value: "nodots": should be a domain with at least one dot"#,
            ],
        ),
        (
            r#""scope": "Galaxy""#,
            vec![
                r#"spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced""#,
            ],
        ),
        (
            r#""names": {"plural": "foos", "kind": "Foo", "listKind": "Foo", "shortNames": ["F"]}"#,
            vec![
                r#"spec.names.shortNames[0]: Invalid value: "F": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#,
                r#"spec.names.listKind: Invalid value: "Foo": kind and listKind may not be the same"#,
            ],
        ),
        (
            r#""preserveUnknownFields": true"#,
            vec![
                "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
            ],
        ),
    ] {
        let errors = validate_create(&definition(&format!("{VERSION}, {spec}")));
        assert_eq!(printed(&errors), expected, "{spec}");
    }
}

#[test]
fn versions() {
    let schema = r#""schema": {"openAPIV3Schema": {"type": "object"}}"#;
    for (versions, expected) in [
        (
            format!(r#"{{"name": "v1", "served": true, {schema}}}"#),
            vec![
                r#"spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must have exactly one version marked as storage version"#,
                "status.storedVersions: Invalid value: null: must have at least one stored version",
            ],
        ),
        (
            r#"{"name": "v1", "storage": true}"#.to_owned(),
            vec!["spec.versions[0].schema.openAPIV3Schema: Required value"],
        ),
        (
            format!(
                r#"{{"name": "v1", "storage": true, "deprecationWarning": "old", {schema},
                     "additionalPrinterColumns": [{{"name": "A", "type": "text", "jsonPath": "a"}}]}}"#
            ),
            vec![
                r#"spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions"#,
                r#"spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string"#,
                r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with ."#,
            ],
        ),
        (
            format!(
                r#"{{"name": "v1", "storage": true, {schema}, "subresources": {{"scale": {{
                     "specReplicasPath": ".replicas", "statusReplicasPath": ""}}}}}}"#
            ),
            vec![
                r#"spec.subresources.scale.specReplicasPath: Invalid value: ".replicas": should be a json path under .spec"#,
                "spec.subresources.scale.statusReplicasPath: Required value",
            ],
        ),
        // A part that only one of several versions has is reported for that version.
        (
            format!(
                r#"{{"name": "v1", "storage": true, {schema}}},
                   {{"name": "v2", {schema}, "selectableFields": [{{"jsonPath": ".a[0]"}}]}}"#
            ),
            vec![
                r#"spec.versions[1].selectableFields: Invalid value: "": may only be set when `version.schema.openAPIV3Schema` is not included"#,
            ],
        ),
    ] {
        let errors = validate_create(&definition(&format!(r#""versions": [{versions}]"#)));
        assert_eq!(printed(&errors), expected, "{versions}");
    }
}

#[test]
fn selectable_fields() {
    let fields = |paths: &[&str]| {
        let fields: Vec<String> =
            paths.iter().map(|path| format!(r#"{{"jsonPath": "{path}"}}"#)).collect();
        definition(&format!(
            r#""versions": [{{"name": "v1", "storage": true, "selectableFields": [{}],
                "schema": {{"openAPIV3Schema": {{"type": "object", "properties": {{
                    "metadata": {{"type": "object", "properties": {{"name": {{"type": "string"}}}}}},
                    "a": {{"type": "string"}}, "o": {{"type": "object"}}}}}}}}}}]"#,
            fields.join(",")
        ))
    };
    assert!(validate_create(&fields(&[".a"])).is_empty());
    assert_eq!(
        printed(&validate_create(&fields(&[".a", ".a", ".b", ".o", ".metadata.name", ".a['b']"]))),
        [
            r#"spec.selectableFields[1].jsonPath: Duplicate value: ".a""#,
            r#"spec.selectableFields[2].jsonPath: Invalid value: ".b": is an invalid path: does not refer to a valid field"#,
            r#"spec.selectableFields[3].jsonPath: Invalid value: ".o": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#,
            r#"spec.selectableFields[4].jsonPath: Invalid value: ".metadata.name": must not point to fields in metadata"#,
            r#"spec.selectableFields[5].jsonPath: Invalid value: ".a['b']": is an invalid path: array notation is not allowed"#,
        ]
    );
}

#[test]
fn structure() {
    check_schemas(&[
        ("{}", &["@.type: Required value: must not be empty for specified object fields"]),
        (r#"{"type": "array"}"#, &["@.items: Required value: must be specified"]),
        (
            r#"{"type": "string", "anyOf": [{"type": "string", "description": "d"}]}"#,
            &[
                "@.anyOf[0].description: Forbidden: must be empty to be structural",
                "spec.validation.openAPIV3Schema.properties[x].anyOf[0].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            r#"{"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}"#,
            &[],
        ),
        (
            r#"{"type": "string", "pattern": "("}"#,
            &[
                r#"@.pattern: Invalid value: "(": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`"#,
            ],
        ),
        (
            r#"{"type": "text"}"#,
            &[
                r#"@.type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
            ],
        ),
        (r##"{"type": "string", "$ref": "#/a"}"##, &["@.$ref: Forbidden: $ref is not supported"]),
    ]);
}

#[test]
fn extensions() {
    check_schemas(&[
        (
            r#"{"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object",
                "properties": {"k": {"type": "string"}}}, "x-kubernetes-list-map-keys": ["k", "z"]}"#,
            &[
                r#"@.x-kubernetes-list-map-keys: Invalid value: ["k","z"]: entries must all be names of item properties"#,
                "spec.validation.openAPIV3Schema.properties[x].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (
            r#"{"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}"#,
            &[
                "@.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
            ],
        ),
        (
            r#"{"type": "string", "x-kubernetes-list-type": "heap"}"#,
            &[
                r#"@.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#,
                r#"spec.validation.openAPIV3Schema.properties[x].x-kubernetes-list-type: Unsupported value: "heap": supported values: "atomic", "set", "map""#,
            ],
        ),
    ]);
}

#[test]
fn defaults() {
    check_schemas(&[
        (
            r#"{"type": "object", "default": {"a": 1}, "properties": {"a": {"type": "integer"}}}"#,
            &[],
        ),
        (
            r#"{"type": "object", "default": {"b": 1}, "properties": {"a": {"type": "integer"}}}"#,
            &[r#"@.default: Invalid value: {"b":1}: must not have unknown fields"#],
        ),
        (
            r#"{"type": "integer", "default": "a"}"#,
            &[r#"@.default: Invalid value: "string":  in body must be of type integer: "string""#],
        ),
        (
            r#"{"type": "integer", "default": 3, "x-kubernetes-validations": [{"rule": "self < 3"}]}"#,
            &["@.default: Invalid value: 3: failed rule: self < 3"],
        ),
        (
            r#"{"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                "metadata": {"type": "object", "properties": {
                    "name": {"type": "string", "default": "a/b"}}}}}"#,
            &[
                r#"@.properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid metadata: metadata.name: Invalid value: "a/b": may not contain '/'"#,
            ],
        ),
    ]);
}

#[test]
fn rules() {
    let rule = |rule: &str| {
        format!(
            r#"{{"Rule":"{rule}","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}}"#
        )
    };
    let check = |schema: &str, expected: &[&str]| check_schemas(&[(schema, expected)]);
    check(r#"{"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf"}]}"#, &[]);
    check(
        r#"{"type": "integer", "x-kubernetes-validations": [{"rule": "self >"}]}"#,
        &[&format!(
            "@.x-kubernetes-validations[0].rule: Invalid value: {}: compilation failed: ERROR: \
             <input>:1:7: Syntax error: mismatched input '<EOF>' expecting {{'[', '{{', '(', '.', \
             '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
             IDENTIFIER}}\n | self >\n | ......^",
            rule("self \\u003e")
        )],
    );
    check(
        r#"{"type": "integer", "x-kubernetes-validations": [{"rule": "self"}]}"#,
        &[&format!(
            "@.x-kubernetes-validations[0].rule: Invalid value: {}: cel expression must evaluate to a bool",
            rule("self")
        )],
    );
    check(
        r#"{"type": "integer", "x-kubernetes-validations": [
            {"rule": " "}, {"rule": "true", "message": "a\nb"}, {"rule": "true", "fieldPath": ".y"}]}"#,
        &[
            "@.x-kubernetes-validations[0].rule: Required value: rule is not specified",
            "spec.validation.openAPIV3Schema.properties[x].x-kubernetes-validations[1].message: Invalid value: \"a\\nb\": must not contain line breaks",
            "spec.validation.openAPIV3Schema.properties[x].x-kubernetes-validations[2].fieldPath: Invalid value: \".y\": must be a valid path",
        ],
    );
    // Old and new elements can be correlated only in lists of type map.
    check(
        r#"{"type": "array", "maxItems": 2, "items": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}"#,
        &[
            "@.items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[x]",
        ],
    );
}

#[test]
fn rules_that_may_cost_too_much() {
    let budget = |factor: &str| {
        format!(
            "exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
             maxProperties, and maxLength where arrays, maps, and strings are declared)"
        )
    };
    let at = "spec.validation.openAPIV3Schema";
    let rule = format!("{at}.properties[x].x-kubernetes-validations[0].rule");
    check_schemas(&[(
        r#"{"type": "array", "items": {"type": "string"},
            "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, a == b))"}]}"#,
        &[
            &format!("{rule}: Forbidden: estimated rule cost {}", budget("more than 100x")),
            &format!(
                "{rule}: Forbidden: contributed to estimated rule cost total exceeding cost limit \
                 for entire OpenAPIv3 schema"
            ),
            &format!(
                "{at}: Forbidden: x-kubernetes-validations estimated rule cost total for entire \
                 OpenAPIv3 schema {}",
                budget("more than 100x")
            ),
        ],
    )]);
}

#[test]
fn conversion() {
    for (conversion, expected) in [
        (r#"{"strategy": "None"}"#, vec![]),
        (
            r#"{"strategy": "Webhook"}"#,
            vec![
                "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
                "spec.conversion.conversionReviewVersions: Required value",
            ],
        ),
        (
            r#"{"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v3"],
                "clientConfig": {"url": "http://u@h?q"}}}"#,
            vec![
                r#"spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
                r#"spec.conversion.webhookClientConfig.url: Invalid value: "u": user information is not permitted in the URL"#,
                r#"spec.conversion.webhookClientConfig.url: Invalid value: "q": query parameters are not permitted in the URL"#,
                r#"spec.conversion.conversionReviewVersions: Invalid value: ["v3"]: must include at least one of v1, v1beta1"#,
            ],
        ),
        (
            r#"{"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}"#,
            vec![
                "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
            ],
        ),
    ] {
        let errors =
            validate_create(&definition(&format!(r#"{VERSION}, "conversion": {conversion}"#)));
        assert_eq!(printed(&errors), expected, "{conversion}");
    }
}

#[test]
fn groups_of_the_community() {
    let mut new = definition(&format!(r#"{VERSION}, "group": "x.k8s.io""#));
    let metadata = new.as_map_mut().unwrap().get_mut("metadata").unwrap();
    let metadata = metadata.as_map_mut().unwrap();
    metadata.insert("name", "foos.x.k8s.io".into());
    assert_eq!(
        printed(&validate_create(&new)),
        [
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"
        ]
    );
    // A violation in the old definition may stay.
    assert!(validate_update(&new, &new).is_empty());
    let approved = Map::from_iter([("api-approved.kubernetes.io", Value::from("https://a.b/c"))]);
    let metadata = new.as_map_mut().unwrap().get_mut("metadata").unwrap();
    metadata.as_map_mut().unwrap().insert("annotations", approved.into());
    assert!(validate_create(&new).is_empty());
}

#[test]
fn updates() {
    let old = definition(VERSION);
    let new = definition(&format!(
        r#"{VERSION}, "scope": "Cluster", "group": "example.org",
           "names": {{"plural": "foos", "kind": "Bar"}}"#
    ));
    let group = r#"spec.group: Invalid value: "example.org": field is immutable"#;
    assert_eq!(printed(&validate_update(&new, &old)), [group]);
    // Once the definition is established, names and scope are immutable.
    let mut established = old.clone();
    let condition =
        Map::from_iter([("type", Value::from("Established")), ("status", "True".into())]);
    let status = established.as_map_mut().unwrap().get_mut("status").unwrap();
    let conditions = Value::List([Value::Map(condition)].into_iter().collect());
    status.as_map_mut().unwrap().insert("conditions", conditions);
    assert_eq!(
        printed(&validate_update(&new, &established)),
        [
            r#"spec.scope: Invalid value: "Cluster": field is immutable"#,
            r#"spec.names.kind: Invalid value: "Bar": field is immutable"#,
            group,
        ]
    );
    assert!(validate_status_update(&new, &old).is_empty());
}

/// A definition may keep violating a rule that was introduced after it.
#[test]
fn rules_for_new_definitions_only() {
    for schema in [
        r#"{"type": "object", "properties": {"x": {"type": "array", "x-kubernetes-list-type": "set",
            "items": {"type": "object"}}}}"#,
        r#"{"type": "object", "properties": {"x": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}}"#,
        r#"{"type": "object", "properties": {"x": {"type": "object", "default": {"b": 1}}}}"#,
    ] {
        let definition = definition_of(schema);
        assert!(!validate_create(&definition).is_empty(), "{schema}");
        assert!(validate_update(&definition, &definition).is_empty(), "{schema}");
        let fine = definition_of(r#"{"type": "object"}"#);
        assert!(!validate_update(&definition, &fine).is_empty(), "{schema}");
    }
}

#[test]
fn the_condition_of_old_definitions() {
    assert_eq!(non_structural(&definition(VERSION)), Ok(Vec::new()));
    let old = definition_of(r#"{"type": "object", "properties": {"x": {}}}"#);
    assert_eq!(
        printed(&non_structural(&old).unwrap()),
        [
            "spec.versions[0].schema.openAPIV3Schema.properties[x].type: Required value: must not be empty for specified object fields"
        ]
    );
    let strange = definition_of(r#"{"type": "object", "properties": {"x": {"$ref": "a"}}}"#);
    assert_eq!(
        non_structural(&strange).unwrap_err().to_string(),
        "failed to check validation schema for version v1: OpenAPIV3Schema '$ref' is not supported"
    );
}
