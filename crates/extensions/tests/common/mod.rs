//! Test objects, schemas and definitions from JSON.

// Not every test uses all of it.
#![allow(dead_code)]

use kevel_api::field_error::FieldError;
use kevel_api::value::Value;
use kevel_api::{builtin, default};
use kevel_codec::json::{Unknown, decode, decode_any};
use kevel_extensions::schema::Validator;

/// Decodes a JSON tree.
pub fn json(text: &str) -> Value {
    decode_any(text.as_bytes(), Unknown::Ignore).expect(text).value
}

/// Defaulted definition of `foos.example.com`. `spec` has further fields, such as `"versions": [...]`, which override
/// the given ones.
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

/// Definition with one version and its schema.
pub fn definition_of(schema: &str) -> Value {
    definition(&format!(
        r#""versions": [{{"name": "v1", "served": true, "storage": true,
                         "schema": {{"openAPIV3Schema": {schema}}}}}]"#
    ))
}

/// Validator of a schema, decoded as the server decodes it.
pub fn validator(schema: &str) -> Validator {
    let definition = definition_of(schema);
    let versions = definition.at(&["spec", "versions"]).and_then(Value::as_list).unwrap();
    Validator::new(versions[0].at(&["schema", "openAPIV3Schema"]).unwrap()).unwrap()
}

/// Printed errors.
pub fn printed(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(FieldError::to_string).collect()
}
