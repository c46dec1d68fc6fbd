//! Kind named by a request's body, and the errors for a body of another kind, or of none.

use kevel_api::convert;
use kevel_api::gvk::{GroupVersion, GroupVersionKind, ParseGroupVersionError};
use kevel_api::quote::quote;
use kevel_api::status::StatusError;

use kevel_registry::resource::api_version;

/// Place in the source where the reference says that its scheme was made; release builds name this one for all schemes.
pub(super) const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// Refuses a body of another kind than the path's.
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

/// The kind that a body names; missing parts are taken from the path.
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

/// The reason why a body's kind is not the path's kind, if so.
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

/// The 400 for a body of the path's kind that cannot be decoded as such.
pub(super) fn unhandled(kind: &GroupVersionKind, error: &dyn std::fmt::Display) -> StatusError {
    StatusError::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {error}",
        kind.kind, kind.version, kind.kind
    ))
}

/// The 400 for a kind that the reference's scheme of custom resources does not register.
pub(super) fn unregistered(kind: &GroupVersionKind) -> StatusError {
    StatusError::bad_request(format!(
        "no kind is registered for the type {}.{} in scheme \"{SCHEME}\"",
        kind.version, kind.kind
    ))
}

/// The 400 for a body that cannot be decoded at all.
pub(super) fn unrecognized(kind: &GroupVersionKind, why: &str, body: &[u8]) -> StatusError {
    StatusError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({})",
        kind.kind,
        summary(body)
    ))
}

/// Beginning of a body for error messages: text as text, other bytes in hexadecimal.
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

/// Refuses an unstructured object of another version than the path's. Another kind is refused later.
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

/// The 400 for an unstructured object without `kind`; `shown` is its body as text.
pub(super) fn missing_kind(expected: &GroupVersionKind, shown: &str, body: &[u8]) -> StatusError {
    unrecognized(expected, &format!("Object 'Kind' is missing in '{shown}'"), body)
}

/// The 400 for an unstructured object without `apiVersion`.
pub(super) fn missing_version(expected: &GroupVersionKind, kind: &str, shown: &str) -> StatusError {
    StatusError::bad_request(format!(
        "{kind} in version \"\" cannot be handled as a {}: Object 'apiVersion' is missing in '{shown}'",
        expected.kind
    ))
}

/// The 400 for an object of the path's kind in another version.
fn other_version(said: &str, expected: &GroupVersionKind) -> StatusError {
    let wanted = api_version(&expected.group, &expected.version);
    StatusError::bad_request(format!(
        "the API version in the data ({said}) does not match the expected API version ({wanted})"
    ))
}

/// Whether `found` is another version of the `expected` kind.
fn is_other_version(found: &GroupVersionKind, expected: &GroupVersionKind) -> bool {
    let same_kind = found.kind == expected.kind && found != expected;
    same_kind && convert::converts(found, &expected.group_version())
}

/// The other version of the path's kind that a body names, if it does.
pub(super) fn other_version_said(
    expected: &GroupVersionKind,
    version: &str,
    kind: &str,
) -> Option<GroupVersionKind> {
    let found = said_kind(expected, version, kind).ok()?;
    is_other_version(&found, expected).then_some(found)
}
