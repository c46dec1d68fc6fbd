//! Objects, schemas and definitions out of JSON.

// Not every test needs all of it.
#![allow(dead_code)]

use kevel_api::field_error::FieldError;
use kevel_api::value::Value;
use kevel_api::{builtin, default};
use kevel_codec::json::{Unknown, decode, decode_any};
use kevel_extensions::schema::Validator;

/// A tree of JSON.
pub fn json(text: &str) -> Value {
    decode_any(text.as_bytes(), Unknown::Ignore).expect(text).value
}

/// A definition of `foos.example.com` as the server has it, defaulted. `spec` is what it says
/// besides, and instead: `"versions": [...]` and the like.
pub fn definition(spec: &str) -> Value {
    let text = format!(
        r#"{{"metadata": {{"name": "foos.example.com"}},
            "spec": {{"group": "example.com", "scope": "Namespaced",
                      "names": {{"plural": "foos", "kind": "Foo"}}, {spec}}}}}"#
    );
    let kind = builtin::schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let mut value = decode(text.as_bytes(), kind, Unknown::Ignore).expect(&text).value;
    default::apply(&mut value, kind);
    value
}

/// A definition with one version and its schema.
pub fn definition_of(schema: &str) -> Value {
    definition(&format!(
        r#""versions": [{{"name": "v1", "served": true, "storage": true,
                         "schema": {{"openAPIV3Schema": {schema}}}}}]"#
    ))
}

/// What judges objects by a schema, read as the server reads it.
pub fn validator(schema: &str) -> Validator {
    let definition = definition_of(schema);
    let versions = definition.at(&["spec", "versions"]).and_then(Value::as_list).unwrap();
    Validator::new(versions[0].at(&["schema", "openAPIV3Schema"]).unwrap()).unwrap()
}

/// Errors as they are printed.
pub fn printed(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(FieldError::to_string).collect()
}
