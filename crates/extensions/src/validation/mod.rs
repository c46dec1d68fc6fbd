//! Validation of CustomResourceDefinitions.
//!
//! Definitions are in `v1`. A rule that was introduced after a definition does not apply to it while the stored
//! definition violates it (ratcheting).

mod conversion;
mod cost;
mod defaults;
mod definition;
mod extensions;
mod internal;
mod names;
mod open_api_schema;
mod options;
mod spec;
mod structural;
mod version;

use std::collections::BTreeMap;

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::name;
use kevel_api::url::Url;
use kevel_api::value::Value;

use crate::schema::props::{Props, expand};
use crate::schema::with_stack;
use definition::Definition;
use options::Options;

const APPROVED: &str = "api-approved.kubernetes.io";

/// Errors of a new definition, beyond the validation of ObjectMeta.
pub fn validate_create(crd: &Value) -> Vec<FieldError> {
    read(crd, |new| {
        let mut errors = check_name(new);
        spec::check(new, &Options::for_new(), &mut errors);
        errors.extend(check_status(new));
        errors.extend(check_stored_versions(new));
        errors.extend(check_approval(new, None));
        errors.extend(check_preserve_unknown_fields(new, None));
        errors
    })
}

/// Errors of a definition that replaces another.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let old = expand(old);
    read(new, |new| {
        let old = &Definition::new(&old);
        let mut errors = Vec::new();
        let options = Options::for_update(new, old);
        spec::check(new, &options, &mut errors);
        spec::check_unchanged(new, old, &options, &mut errors);
        errors.extend(check_status(new));
        errors.extend(check_stored_versions(new));
        errors.extend(check_approval(new, Some(old)));
        errors.extend(check_preserve_unknown_fields(new, Some(old)));
        errors
    })
}

/// Errors of a definition whose status is replaced.
pub fn validate_status_update(new: &Value, _old: &Value) -> Vec<FieldError> {
    check_status(&Definition::new(new))
}

/// Error of a schema that cannot be converted to a structural schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to check validation schema for version {version}: {why}")] // reference message
pub struct StructuralError {
    /// Name of the version.
    pub version: String,
    /// Field of the schema that is not supported.
    pub why: &'static str,
}

/// Whether a schema is structural and has only OpenAPI types.
pub(crate) fn is_structural(schema: &Value) -> bool {
    let schema = expand(schema);
    let schema = Props::new(&schema);
    let is_foreign = |ty: &str| !ty.is_empty() && !open_api_schema::TYPES.contains(&ty);
    with_stack(schema.depth(), || {
        !schema.any(&mut |schema| is_foreign(schema.kind()))
            && structural::unsupported(schema).is_none()
            && structural::check(&Path::NONE, schema).is_empty()
    })
}

/// Violations of the structural schema rules, for the condition NonStructuralSchema. Each version is checked by itself.
pub fn non_structural(crd: &Value) -> Result<Vec<FieldError>, StructuralError> {
    let spec = Path::new("spec");
    let versions = spec.child("versions");
    let mut errors = Vec::new();
    if crd.at(&["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(true) {
        let path = spec.child("preserveUnknownFields");
        errors.push(FieldError::invalid(&path, true, "must be false"));
    }
    let list = crd.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
    for (index, version) in list.iter().enumerate() {
        let Some(schema) = version.at(&["schema", "openAPIV3Schema"]) else { continue };
        let schema = expand(schema);
        let schema = Props::new(&schema);
        let at_version = versions.index(index);
        let path = at_version.child("schema.openAPIV3Schema");
        let checked = with_stack(schema.depth(), || match structural::unsupported(schema) {
            Some(why) => Err(why),
            None => Ok(structural::check(&path, schema)),
        });
        let name = || version.str_at(&["name"]).to_owned();
        errors.extend(checked.map_err(|why| StructuralError { version: name(), why })?);
    }
    Ok(errors)
}

/// Runs checks on a definition with its JSON documents decoded, on a stack for its depth.
fn read(
    crd: &Value,
    check: impl FnOnce(&Definition<'_>) -> Vec<FieldError> + Send,
) -> Vec<FieldError> {
    let crd = expand(crd);
    with_stack(Props::new(&crd).depth(), || check(&Definition::new(&crd)))
}

fn check_name(new: &Definition<'_>) -> Vec<FieldError> {
    let metadata = Path::new("metadata");
    let plural = new.spec.get("names").map_or("", |names| names.str_at(&["plural"]));
    let expected = format!("{plural}.{}", new.spec.text("group"));
    let mut errors = Vec::new();
    for field in ["generateName", "name"] {
        let said = new.crd.str_at(&["metadata", field]);
        if !said.is_empty() && said != expected {
            let why = "must be spec.names.plural+\".\"+spec.group";
            errors.push(FieldError::invalid(&metadata.child(field), said, why));
        }
    }
    errors
}

fn check_status(new: &Definition<'_>) -> Vec<FieldError> {
    let path = Path::new("status.acceptedNames");
    let accepted = new.crd.at(&["status", "acceptedNames"]).unwrap_or(&Value::Null);
    names::check(Props::new(accepted), &path)
}

fn check_stored_versions(new: &Definition<'_>) -> Vec<FieldError> {
    let status = Path::new("status");
    let path = status.child("storedVersions");
    let list = new.crd.at(&["status", "storedVersions"]).and_then(Value::as_list);
    let stored: Vec<&str> = list.unwrap_or_default().iter().filter_map(Value::as_str).collect();
    if stored.is_empty() {
        let nothing = BadValue::Text(list.map_or("null", |_| "[]").to_owned());
        return vec![FieldError::invalid(&path, nothing, "must have at least one stored version")];
    }
    let mut errors = Vec::new();
    // Of equal names, only the last counts.
    let mut left: BTreeMap<&str, usize> = stored.iter().copied().zip(0..).collect();
    for version in &new.versions {
        if left.remove(version.name).is_none() && version.fields.flag("storage") {
            let why = format!("must have the storage version {}", version.name);
            errors.push(FieldError::invalid(&path, BadValue::strings(&stored), why));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if left.get(name) == Some(&index) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(&path.index(index), *name, why));
        }
    }
    errors
}

#[derive(PartialEq, Eq)]
enum Approval {
    Invalid,
    Approved,
    Bypassed,
    Missing,
}

/// Error of a definition in a protected group without approval.
fn check_approval(new: &Definition<'_>, old: Option<&Definition<'_>>) -> Option<FieldError> {
    let group = new.spec.text("group");
    let is_protected = |domain: &str| {
        group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if !is_protected("k8s.io") && !is_protected("kubernetes.io") {
        return None;
    }
    let said = new.crd.str_at(&["metadata", "annotations", APPROVED]);
    let state = approval(said);
    if old.is_some_and(|old| {
        approval(old.crd.str_at(&["metadata", "annotations", APPROVED])) == state
    }) {
        return None;
    }
    let annotations = Path::new("metadata.annotations");
    let path = annotations.key(APPROVED);
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let why = format!("protected groups must have approval annotation \"{APPROVED}\"");
    match state {
        Approval::Missing => Some(FieldError::required(&path, format!("{why}, {see}"))),
        Approval::Invalid => {
            let with = "with either a URL or a reason starting with \"unapproved\"";
            Some(FieldError::invalid(&path, said, format!("{why} {with}, {see}")))
        }
        Approval::Approved | Approval::Bypassed => None,
    }
}

fn approval(annotation: &str) -> Approval {
    let is_address = |url: Url| !url.host().is_empty() && !url.scheme().is_empty();
    match annotation {
        "" => Approval::Missing,
        said if said.starts_with("unapproved") => Approval::Bypassed,
        said if Url::parse_request(said).is_ok_and(is_address) => Approval::Approved,
        _ => Approval::Invalid,
    }
}

fn check_preserve_unknown_fields(
    new: &Definition<'_>,
    old: Option<&Definition<'_>>,
) -> Option<FieldError> {
    if !new.preserves_unknown_fields() || old.is_some_and(|old| old.preserves_unknown_fields()) {
        return None;
    }
    let spec = Path::new("spec");
    let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
               spec.versions[*].schema instead";
    Some(FieldError::invalid(&spec.child("preserveUnknownFields"), true, why))
}

/// Problems of a DNS-1035 label, joined.
fn dns_label_problem(value: &str) -> Option<String> {
    let problems = name::is_dns1035_label(value);
    (!problems.is_empty()).then(|| problems.join(","))
}
