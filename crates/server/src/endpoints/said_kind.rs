//! The kind that an object says to be of, and what a client hears whose object is of another one, or of none.

use kevel_api::convert;
use kevel_api::gvk::{GroupVersion, GroupVersionKind, ParseGroupVersionError};
use kevel_api::quote::quote;
use kevel_api::status::StatusError;

use crate::resource::api_version;

/// Where the reference says that a scheme was made: of those that it is released with, all at one place.
pub(super) const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// Refuses an object of another kind than the path's.
pub(super) fn check_kind(
    expected: &GroupVersionKind,
    version: &str,
    kind: &str,
    body: &[u8],
) -> Result<(), StatusError> {
    let Some(why) = other_kind(expected, version, kind) else { return Ok(()) };
    let Ok(found) = said_kind(expected, version, kind) else {
        return Err(unrecognized(expected, &why, body));
    };
    if is_other_version(&found, expected) {
        return Err(other_version(version, expected));
    }
    Err(StatusError::bad_request(format!(
        "{} in version {} cannot be handled as a {}: {why}",
        found.kind,
        quote(&found.version),
        expected.kind,
    )))
}

/// The kind that an object says to be of. What it does not say is as the path has it.
fn said_kind(
    expected: &GroupVersionKind,
    version: &str,
    kind: &str,
) -> Result<GroupVersionKind, ParseGroupVersionError> {
    let mut said = version.parse::<GroupVersion>()?;
    if said.version.is_empty() && (said.group.is_empty() || said.group == expected.group) {
        said = expected.group_version();
    }
    Ok(said.with_kind(if kind.is_empty() { expected.kind.as_str() } else { kind }))
}

/// Why an object that says to be of a kind is not one of the path's kind, if so.
pub(super) fn other_kind(expected: &GroupVersionKind, version: &str, kind: &str) -> Option<String> {
    let found = match said_kind(expected, version, kind) {
        Ok(found) if found == *expected => return None,
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    let known = kevel_api::builtin::schema(&found.group, &found.version, &found.kind).is_some();
    if known {
        let internal = match expected.group.as_str() {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        return Some(format!(
            "converting ({}.{}) to ({internal}.{}): unknown conversion",
            found.version, found.kind, expected.kind
        ));
    }
    Some(format!(
        "no kind {} is registered for version {} in scheme \"{SCHEME}\"",
        quote(&found.kind),
        quote(&found.group_version().to_string())
    ))
}

/// What is of the path's kind and cannot be read as such.
pub(super) fn unhandled(kind: &GroupVersionKind, error: &dyn std::fmt::Display) -> StatusError {
    StatusError::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {error}",
        kind.kind, kind.version, kind.kind
    ))
}

/// What cannot be read as a kind that a server of custom objects has not registered.
pub(super) fn unregistered(kind: &GroupVersionKind) -> StatusError {
    StatusError::bad_request(format!(
        "no kind is registered for the type {}.{} in scheme \"{SCHEME}\"",
        kind.version, kind.kind
    ))
}

/// What cannot be read at all.
pub(super) fn unrecognized(kind: &GroupVersionKind, why: &str, body: &[u8]) -> StatusError {
    StatusError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({})",
        kind.kind,
        summary(body)
    ))
}

/// The beginning of a body, for people: text as text, anything else in hexadecimal.
fn summary(body: &[u8]) -> String {
    const MOST: usize = 30;
    if body.is_empty() {
        return "<empty>".into();
    }
    let cut = &body[..body.len().min(MOST)];
    let more = if body.len() > MOST { " ..." } else { "" };
    let hex: String = cut.iter().map(|byte| format!("{byte:02x}")).collect();
    match body.first() {
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(cut)),
        _ => format!("{hex}{more}"),
    }
}

/// Refuses an unstructured object of another version than the path's. That it is of another kind is found
/// out later.
pub(super) fn check_unstructured_kind(
    expected: &GroupVersionKind,
    version: &str,
    kind: &str,
    body: &[u8],
) -> Result<(), StatusError> {
    if kind.is_empty() {
        return Err(missing_kind(expected, &String::from_utf8_lossy(body), body));
    }
    if let Err(error) = version.parse::<GroupVersion>() {
        return Err(unrecognized(expected, &error.to_string(), body));
    }
    let wanted = api_version(&expected.group, &expected.version);
    match version == wanted {
        true => Ok(()),
        false => Err(other_version(version, expected)),
    }
}

/// An unstructured object that does not say its kind; `shown` is its body as people read it.
pub(super) fn missing_kind(expected: &GroupVersionKind, shown: &str, body: &[u8]) -> StatusError {
    unrecognized(expected, &format!("Object 'Kind' is missing in '{shown}'"), body)
}

/// The same of its version.
pub(super) fn missing_version(expected: &GroupVersionKind, kind: &str, shown: &str) -> StatusError {
    StatusError::bad_request(format!(
        "{kind} in version \"\" cannot be handled as a {}: Object 'apiVersion' is missing in '{shown}'",
        expected.kind
    ))
}

/// What says to be of the path's kind in another version than the path's.
fn other_version(said: &str, expected: &GroupVersionKind) -> StatusError {
    let wanted = api_version(&expected.group, &expected.version);
    StatusError::bad_request(format!(
        "the API version in the data ({said}) does not match the expected API version ({wanted})"
    ))
}

/// Whether objects of a kind are objects of another one, in another version.
fn is_other_version(found: &GroupVersionKind, expected: &GroupVersionKind) -> bool {
    let same_kind = found.kind == expected.kind && found != expected;
    same_kind && convert::converts(found, &expected.group_version())
}

/// The other version of the path's kind that an object says to be of, if it does.
pub(super) fn other_version_said(
    expected: &GroupVersionKind,
    version: &str,
    kind: &str,
) -> Option<GroupVersionKind> {
    let found = said_kind(expected, version, kind).ok()?;
    is_other_version(&found, expected).then_some(found)
}
