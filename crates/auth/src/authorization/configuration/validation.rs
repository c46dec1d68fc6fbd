//! Validation of the configuration, in the reference's order and words.

use std::collections::BTreeSet;
use std::io;
use std::path;

use kevel_api::field_error::{BadValue, FieldError, Path, aggregate};
use kevel_api::json_string::write_json_string;
use kevel_api::name::is_dns1123_subdomain;

use super::{AuthorizationConfiguration, WebhookConfiguration};
use crate::authorization::match_conditions::MatchConditions;

/// Types of authorizers, sorted.
const MODES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
/// The only type that may occur several times.
pub(super) const WEBHOOK: &str = "Webhook";

const MAX_TIMEOUT: i64 = 30_000_000_000;

pub(super) fn check(
    config: &AuthorizationConfiguration,
    required: &BTreeSet<String>,
) -> Result<(), String> {
    let errors = field_errors(config);
    if let Some(errors) = aggregate(&errors) {
        return Err(errors);
    }
    let mut errors = Vec::new();
    for authorizer in config.authorizers.iter().filter(|authorizer| authorizer.mode != WEBHOOK) {
        let (mode, name, expected) =
            (&authorizer.mode, &authorizer.name, authorizer.mode.to_lowercase());
        if *name != expected {
            errors
                .push(format!("expected name {expected} for authorizer {mode} instead of {name}"));
        }
    }
    let present = config.lasting_modes();
    let missing: Vec<&str> = required.difference(&present).map(String::as_str).collect();
    if !missing.is_empty() {
        errors.push(format!("missing required types: [{}]", missing.join(" ")));
    }
    aggregate(errors).map_or(Ok(()), Err)
}

fn field_errors(config: &AuthorizationConfiguration) -> Vec<FieldError> {
    let root = Path::new("authorizers");
    let mut errors = Vec::new();
    if config.authorizers.is_empty() {
        let detail = "at least one authorization mode must be defined";
        errors.push(FieldError::required(&root, detail));
    }
    let (mut modes, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (index, authorizer) in config.authorizers.iter().enumerate() {
        let path = root.index(index);
        let (mode, name) = (authorizer.mode.as_str(), authorizer.name.as_str());
        if mode.is_empty() {
            errors.push(FieldError::required(&path.child("type"), ""));
            continue;
        }
        if !MODES.contains(&mode) {
            errors.push(FieldError::not_supported(&path.child("type"), mode, MODES));
            continue;
        }
        if !modes.insert(mode) && mode != WEBHOOK {
            errors.push(FieldError::duplicate(&path.child("type"), mode));
            continue;
        }
        let problems = is_dns1123_subdomain(name);
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else if names.contains(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        } else if !problems.is_empty() {
            let detail = format!("authorizer name is invalid: {}", problems.join(", "));
            errors.push(FieldError::invalid(&path.child("name"), name, detail));
        }
        names.insert(name);
        match (&authorizer.webhook, mode == WEBHOOK) {
            (Some(webhook), true) => errors.extend(webhook_errors(webhook, &path)),
            (None, true) => {
                let detail = "required when type=Webhook";
                errors.push(FieldError::required(&path.child("webhook"), detail));
            }
            (Some(_), false) => {
                let detail = "may only be specified when type=Webhook";
                errors.push(FieldError::invalid(&path.child("webhook"), "non-null", detail));
            }
            (None, false) => {}
        }
    }
    errors
}

/// Errors of a webhook. `path` is that of the authorizer: the reference leaves `webhook` out.
fn webhook_errors(config: &WebhookConfiguration, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, value, most, detail) in [
        ("timeout", config.timeout, MAX_TIMEOUT, "must be > 0s and <= 30s"),
        ("authorizedTTL", config.authorized_ttl, i64::MAX, "must be > 0s"),
        ("unauthorizedTTL", config.unauthorized_ttl, i64::MAX, "must be > 0s"),
    ] {
        let path = path.child(name);
        if value.0 == 0 {
            errors.push(FieldError::required(&path, ""));
        } else if value.0 < 0 || value.0 > most {
            errors.push(FieldError::invalid(&path, value.to_string(), detail));
        }
    }
    let one_of = |name: &str, value: &str, known: &[&str]| {
        let path = path.child(name);
        match value {
            "" => Some(FieldError::required(&path, "")),
            value if known.contains(&value) => None,
            value => Some(FieldError::not_supported(&path, value, known)),
        }
    };
    let version = config.subject_access_review_version.as_str();
    errors.extend(one_of("subjectAccessReviewVersion", version, &["v1", "v1beta1"]));
    match config.match_condition_subject_access_review_version.as_str() {
        "" if config.match_conditions.is_empty() => {}
        "" => errors.push(FieldError::required(
            &path.child("matchConditionSubjectAccessReviewVersion"),
            "required if match conditions are specified",
        )),
        version => {
            errors.extend(one_of("matchConditionSubjectAccessReviewVersion", version, &["v1"]));
        }
    }
    errors.extend(one_of("failurePolicy", &config.failure_policy, &["NoOpinion", "Deny"]));
    errors.extend(connection_error(config, path));
    if let Err(more) = MatchConditions::compile(&config.match_conditions, path) {
        errors.extend(more);
    }
    errors
}

fn connection_error(config: &WebhookConfiguration, path: &Path<'_>) -> Option<FieldError> {
    let path = path.child("connectionInfo");
    let (at, file) = (path.child("kubeConfigFile"), config.kube_config_file.as_deref());
    match (config.connection_type.as_str(), file) {
        ("", _) => Some(FieldError::required(&path.child("type"), "")),
        ("InClusterConfig", Some(file)) => {
            Some(FieldError::invalid(&at, file, "can only be set when type=KubeConfigFile"))
        }
        ("InClusterConfig", None) => None,
        ("KubeConfigFile", None | Some("")) => Some(FieldError::required(&at, "")),
        ("KubeConfigFile", Some(file)) => {
            file_problem(file).map(|problem| FieldError::invalid(&at, file, problem))
        }
        (_, _) => {
            let known = ["InClusterConfig", "KubeConfigFile"];
            Some(FieldError::not_supported(&path.child("type"), go_struct(config), known))
        }
    }
}

fn file_problem(file: &str) -> Option<String> {
    if !path::Path::new(file).is_absolute() {
        return Some("must be an absolute path".to_owned());
    }
    match std::fs::metadata(file) {
        Ok(data) => (!data.is_file()).then(|| "must be a regular file".to_owned()),
        Err(error) => {
            let problem = match error.kind() {
                io::ErrorKind::NotFound => "no such file or directory".to_owned(),
                io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                _ => error.to_string(),
            };
            Some(format!("error loading file: stat {file}: {problem}"))
        }
    }
}

/// Connection info as the reference prints its struct.
fn go_struct(config: &WebhookConfiguration) -> BadValue {
    let mut out = br#"{"Type":"#.to_vec();
    write_json_string(&mut out, &config.connection_type);
    out.extend_from_slice(br#","KubeConfigFile":"#);
    match &config.kube_config_file {
        Some(file) => write_json_string(&mut out, file),
        None => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
    BadValue::Text(String::from_utf8_lossy(&out).into_owned())
}
