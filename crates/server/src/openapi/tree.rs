//! Helpers to build documents.

use kevel_api::value::{Map, Value};

pub(super) fn object<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Value::Map(entries.into_iter().collect())
}

pub(super) fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}

pub(super) fn strings<S: AsRef<str>>(strings: impl IntoIterator<Item = S>) -> Value {
    list(strings.into_iter().map(|s| Value::from(s.as_ref())))
}

/// Entry of `x-kubernetes-group-version-kind`.
pub(super) fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    object([("group", group.into()), ("version", version.into()), ("kind", kind.into())])
}

/// Replaces an `allOf` of a single reference by the reference.
pub(super) fn bare(schema: Map) -> Map {
    match schema.get("allOf").and_then(Value::as_list) {
        Some([Value::Map(only)]) if schema.len() == 1 => only.clone(),
        _ => schema,
    }
}
