//! Application of webhook patches to objects.

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_clock::Clock;
use kevel_codec::json;
use kevel_patch::json_patch::Patch;
use kevel_patch::managed_fields;
use kevel_registry::admission::Attributes;
use kevel_registry::resource::api_version;
use kevel_server::endpoints::settle_changed;

use crate::cel::versioned_object;
use crate::scheme;

use super::failure::{CallError, Failure};
use super::review::AdmissionResponse;
use super::versions::Versioned;

/// Limit on the bytes that the `copy` operations of one patch may add, as for patches of clients.
const COPY_LIMIT: usize = 3 << 20;

/// Object after a webhook's patch; `None` if the response has no patch.
pub(super) fn apply(
    webhook: &str,
    response: &AdmissionResponse,
    versioned: &Versioned<'_>,
    attributes: &Attributes<'_>,
) -> Result<Option<Value>, Failure> {
    if response.patch.is_empty() {
        return Ok(None);
    }
    let patch = Patch::decode(&response.patch, json::Unknown::Ignore);
    let (patch, _) = patch.map_err(|error| {
        CallError::new(503, format!("received undecodable patch in webhook response: {error}"))
    })?;
    if patch.operations().is_empty() {
        return Ok(None);
    }
    let internal = |error: &dyn std::fmt::Display| Failure::Internal(StatusError::internal(error));
    let Some(object) = versioned.object else {
        return Err(internal(&format_args!(
            "admission webhook {} attempted to modify the object, which is not supported for this \
             operation",
            quote(webhook)
        )));
    };
    if response.patch_type != "JSONPatch" {
        let why = format!("unsupported patch type {}", quote(&response.patch_type));
        return Err(CallError::new(400, why).into());
    }
    let changed = match in_part(&patch, object, versioned) {
        Some(changed) => changed,
        None => patched(&patch, object, versioned),
    };
    let settled = changed.and_then(|changed| settled(changed, versioned, attributes.clock));
    let mut changed = settled.map_err(|error| internal(&error))?;
    keep_managed_fields(&mut changed, object, attributes);
    Ok(Some(changed))
}

/// Patches only the fields that the patch names, because most patches touch few. `None` if that fails, or for custom
/// resources: then the whole object is patched.
fn in_part(
    patch: &Patch,
    object: &Value,
    versioned: &Versioned<'_>,
) -> Option<Result<Value, String>> {
    if versioned.ty.is_unstructured() {
        return None;
    }
    let reach = patch.reach()?;
    let part = patched(patch, &reach.cut(object), versioned).ok()?;
    let mut changed = object.clone();
    reach.paste(&mut changed, part);
    Some(Ok(changed))
}

/// Patches the whole object as JSON, and decodes the result as the same kind.
fn patched(patch: &Patch, object: &Value, versioned: &Versioned<'_>) -> Result<Value, String> {
    let document = versioned_object(object, versioned.ty.schema(), versioned.kind);
    let patched = patch.apply(document, COPY_LIMIT).map_err(|error| error.to_string())?;
    check_kind(&patched, versioned.kind)?;
    let mut text = Vec::new();
    json::encode_any(&patched, &mut text);
    let decoded = json::decode(&text, versioned.ty.schema(), json::Unknown::Ignore);
    Ok(decoded.map_err(|error| error.to_string())?.value)
}

/// Changed object with defaults and its kind.
fn settled(object: Value, versioned: &Versioned<'_>, clock: &Clock) -> Result<Value, String> {
    let mut value = settle_changed(object, versioned.kind, versioned.ty, clock)
        .map_err(|error| error.to_string())?;
    if let Some(map) = value.as_map_mut() {
        let version = api_version(&versioned.kind.group, &versioned.kind.version);
        map.insert("apiVersion", version.as_str().into());
        map.insert("kind", versioned.kind.kind.as_str().into());
    }
    Ok(value)
}

/// Checks that a patch did not change the kind.
fn check_kind(patched: &Value, expected: &GroupVersionKind) -> Result<(), String> {
    let (version, kind) = (patched.str_at(&["apiVersion"]), patched.str_at(&["kind"]));
    let own = api_version(&expected.group, &expected.version);
    if (version.is_empty() || version == own) && (kind.is_empty() || kind == expected.kind) {
        return Ok(());
    }
    let found = GroupVersionKind::from_api_version_and_kind(version, kind);
    let Some(schema) = builtin::schema(&found.group, &found.version, &found.kind) else {
        return Err(scheme::not_registered(&found).unwrap_or_default());
    };
    // The reference decodes the object as the kind that it names before it refuses the kind.
    let mut text = Vec::new();
    json::encode_any(patched, &mut text);
    json::decode(&text, schema, json::Unknown::Ignore).map_err(|error| error.to_string())?;
    Err(scheme::unknown_conversion(&found, expected))
}

/// Reverts a change of `managedFields` that does not decode.
fn keep_managed_fields(object: &mut Value, before: &Value, attributes: &Attributes<'_>) {
    let path = ["metadata", "managedFields"];
    if object.at(&path) == before.at(&path) {
        return;
    }
    if let Err(error) = managed_fields::check(object) {
        let metadata = object.make_map(&["metadata"]);
        match before.at(&path) {
            Some(before) => drop(metadata.insert("managedFields", before.clone())),
            None => drop(metadata.remove("managedFields")),
        }
        attributes.warnings.add(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused \
             by an outdated mutating admission controller; please fix your requests: {error}"
        ));
    }
}
