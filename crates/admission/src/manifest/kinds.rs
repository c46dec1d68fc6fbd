//! Kinds that the folder of a plug-in may hold, and the constraints on objects in files.

use std::path::Path;

use kevel_api::value::Value;

use super::STATIC_SUFFIX;
use super::error::DocumentError;

/// A kind that a plug-in takes from files.
#[derive(Debug)]
pub(crate) struct ManifestKind {
    pub name: &'static str,
    /// Constraints on an object of this kind, name and file.
    pub(super) check: fn(&'static str, &str, &Path, &Value) -> Result<(), DocumentError>,
}

/// Kinds that a plug-in takes from files.
pub(crate) type ManifestKinds = &'static [ManifestKind];

/// Kinds of `ValidatingAdmissionWebhook`.
pub(crate) static VALIDATING_WEBHOOKS: ManifestKinds =
    &[ManifestKind { name: "ValidatingWebhookConfiguration", check: webhooks }];

/// Kinds of `MutatingAdmissionWebhook`.
pub(crate) static MUTATING_WEBHOOKS: ManifestKinds =
    &[ManifestKind { name: "MutatingWebhookConfiguration", check: webhooks }];

/// Kinds of `ValidatingAdmissionPolicy`: policies, and after them bindings.
pub(crate) static VALIDATING_POLICIES: ManifestKinds = &[
    ManifestKind { name: "ValidatingAdmissionPolicy", check: policy },
    ManifestKind { name: "ValidatingAdmissionPolicyBinding", check: binding },
];

/// Kinds of `MutatingAdmissionPolicy`: policies, and after them bindings.
pub(crate) static MUTATING_POLICIES: ManifestKinds = &[
    ManifestKind { name: "MutatingAdmissionPolicy", check: policy },
    ManifestKind { name: "MutatingAdmissionPolicyBinding", check: binding },
];

/// Webhooks of files must not depend on objects of the API such as Services.
fn webhooks(
    _: &'static str,
    name: &str,
    file: &Path,
    configuration: &Value,
) -> Result<(), DocumentError> {
    for webhook in configuration.list_at(&["webhooks"]) {
        let names = || (webhook.str_at(&["name"]).to_owned(), name.to_owned(), file.to_owned());
        if webhook.at(&["clientConfig", "service"]).is_some() {
            let (webhook, configuration, file) = names();
            return Err(DocumentError::Service { webhook, configuration, file });
        }
        if webhook.str_at(&["clientConfig", "url"]).is_empty() {
            let (webhook, configuration, file) = names();
            return Err(DocumentError::NoUrl { webhook, configuration, file });
        }
    }
    Ok(())
}

/// Policies of files have no parameters, which are objects of the API.
fn policy(kind: &'static str, name: &str, _: &Path, policy: &Value) -> Result<(), DocumentError> {
    match policy.at(&["spec", "paramKind"]) {
        Some(_) => Err(DocumentError::ParamKind { kind, name: name.to_owned() }),
        None => Ok(()),
    }
}

/// Bindings of files are of policies in files, and have no parameters.
fn binding(_: &'static str, name: &str, _: &Path, binding: &Value) -> Result<(), DocumentError> {
    let policy = binding.str_at(&["spec", "policyName"]);
    let binding_name = name.to_owned();
    if policy.is_empty() {
        return Err(DocumentError::NoPolicyName { binding: binding_name });
    }
    if !policy.ends_with(STATIC_SUFFIX) {
        let policy = policy.to_owned();
        return Err(DocumentError::PolicySuffix { binding: binding_name, policy });
    }
    match binding.at(&["spec", "paramRef"]) {
        Some(_) => Err(DocumentError::ParamRef { binding: binding_name }),
        None => Ok(()),
    }
}
