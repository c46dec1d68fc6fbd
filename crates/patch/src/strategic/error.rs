//! Errors of strategic merge patches, with the messages of the reference.

use std::fmt;

use kevel_api::value::{Map, Value};

use crate::go_format::{Plain, PlainList, go_type};

/// Error of applying a strategic merge patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A directive has the wrong form: 400.
    Format(&'static str),
    /// The patch cannot be carried out: 422, without this message.
    Unprocessable(&'static str),
    /// Any other error, which the reference returns as an internal error: 500.
    Other(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Format(message) | Error::Unprocessable(message) => f.write_str(message),
            Error::Other(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    pub(super) const UNSUPPORTED: Error =
        Error::Format("strategic merge patch format is not supported");
    pub(super) const DELETE_FROM_LIST: Error =
        Error::Format("invalid patch format of primitive list");
    pub(super) const RETAIN_KEYS: Error = Error::Format("invalid patch format of retainKeys");
    pub(super) const SET_ORDER: Error =
        Error::Format("invalid patch format of setElementOrder list");
    pub(super) const LIST_OF_LISTS: Error =
        Error::Unprocessable("lists of lists are not supported");

    pub(super) const TOO_MUCH: Error =
        Error::Unprocessable("the patch merges the same fields too often");

    pub(super) fn other(message: impl Into<String>) -> Error {
        Error::Other(message.into())
    }

    pub(super) fn no_merge_key(element: &Map, key: &str) -> Error {
        let element = Value::Map(element.clone());
        let element = Plain(&element);
        Error::Other(format!("map: {element} does not contain declared merge key: {key}"))
    }

    pub(super) fn unknown_directive(directive: &Value, map: &Map) -> Error {
        let map = Value::Map(map.clone());
        // The reference prints any value with `%s`.
        let directive = match directive {
            Value::String(text) => text.to_string(),
            Value::Null => "%!s(<nil>)".to_owned(),
            other => format!("%!s({}={})", go_type(other), Plain(other)),
        };
        Error::Other(format!("unknown patch type: {directive} in map: {}", Plain(&map)))
    }

    pub(super) fn not_a_map(found: &Value) -> Error {
        Error::wrong_type("map[string]interface {}", found)
    }

    pub(super) fn not_a_list(found: &Value) -> Error {
        Error::wrong_type("[]interface {}", found)
    }

    fn wrong_type(expected: &str, found: &Value) -> Error {
        let found = match found {
            Value::Null => "%!s(<nil>)",
            other => go_type(other),
        };
        Error::Other(format!("expected a {expected}, but received a {found}"))
    }

    pub(super) fn mixed_types(lists: [&[Value]; 2]) -> Error {
        let [a, b] = lists.map(PlainList);
        Error::Other(format!("list element types are not identical: [{a} {b}]"))
    }

    pub(super) fn wrong_order(patch: &[Value], order: &[Value]) -> Error {
        let (patch, order) = (PlainList(patch), PlainList(order));
        Error::Other(format!(
            "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
        ))
    }
}
