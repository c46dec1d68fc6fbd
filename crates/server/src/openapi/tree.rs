//! Small pieces of documents.

use kevel_api::value::Value;

pub(super) fn object<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Value::Map(entries.into_iter().collect())
}

pub(super) fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}

pub(super) fn strings<S: AsRef<str>>(strings: impl IntoIterator<Item = S>) -> Value {
    list(strings.into_iter().map(|s| Value::from(s.as_ref())))
}
