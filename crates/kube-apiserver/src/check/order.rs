//! Order in which documents are installed: what others depend on comes first, whatever the order in the files.

use std::collections::HashSet;

use kevel_api::value::Value;
use kevel_codec::json::Unknown;
use kevel_codec::yaml;

use super::document::CheckedDocument;

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// Steps of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstallStep {
    /// Namespaces.
    Namespaces,
    /// CustomResourceDefinitions.
    Definitions,
    /// Objects that admission looks up by name.
    Referenced,
    /// Parameters of admission policies.
    Parameters,
    /// Admission policies.
    Policies,
    /// Bindings of admission policies.
    Bindings,
    /// Limits of namespaces.
    Limits,
    /// Everything else.
    Rest,
}

/// Steps of kinds; all others are of the last step.
const STEPS: [(&str, &str, InstallStep); 19] = [
    ("", "Namespace", InstallStep::Namespaces),
    ("apiextensions.k8s.io", "CustomResourceDefinition", InstallStep::Definitions),
    ("", "ServiceAccount", InstallStep::Referenced),
    ("scheduling.k8s.io", "PriorityClass", InstallStep::Referenced),
    ("node.k8s.io", "RuntimeClass", InstallStep::Referenced),
    ("networking.k8s.io", "IngressClass", InstallStep::Referenced),
    ("resource.k8s.io", "DeviceClass", InstallStep::Referenced),
    (STORAGE, "StorageClass", InstallStep::Referenced),
    (STORAGE, "VolumeAttributesClass", InstallStep::Referenced),
    (RBAC, "Role", InstallStep::Referenced),
    (RBAC, "ClusterRole", InstallStep::Referenced),
    (RBAC, "RoleBinding", InstallStep::Referenced),
    (RBAC, "ClusterRoleBinding", InstallStep::Referenced),
    (ADMISSION, "ValidatingAdmissionPolicy", InstallStep::Policies),
    (ADMISSION, "MutatingAdmissionPolicy", InstallStep::Policies),
    (ADMISSION, "ValidatingAdmissionPolicyBinding", InstallStep::Bindings),
    (ADMISSION, "MutatingAdmissionPolicyBinding", InstallStep::Bindings),
    ("", "LimitRange", InstallStep::Limits),
    ("", "ResourceQuota", InstallStep::Limits),
];

/// Kinds that a cluster calls others for. They are checked, and not stored.
const REMOTE: [(&str, &str, RemoteKind); 3] = [
    (ADMISSION, "MutatingWebhookConfiguration", RemoteKind::Webhook),
    (ADMISSION, "ValidatingWebhookConfiguration", RemoteKind::Webhook),
    ("apiregistration.k8s.io", "APIService", RemoteKind::Service),
];

/// Kinds of calls that an offline check does not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteKind {
    /// Admission webhooks.
    Webhook,
    /// Aggregated API servers.
    Service,
}

/// Webhook or server that a cluster would call for an object of this kind.
pub fn remote(document: &CheckedDocument) -> Option<RemoteKind> {
    let group = group(&document.api_version);
    let row = REMOTE.iter().find(|(of, kind, _)| *of == group && *kind == document.kind);
    row.map(|(.., remote)| *remote)
}

/// Kinds of the parameters of policies, by `apiVersion` and `kind`.
#[derive(Debug, Default)]
pub struct ParameterKinds(HashSet<(String, String)>);

impl ParameterKinds {
    /// Parameter kinds that the policies among the documents name.
    pub fn of(documents: &[CheckedDocument]) -> Self {
        let policies = documents.iter().filter(|one| step_of_kind(one) == InstallStep::Policies);
        let kinds = policies.filter_map(|policy| {
            let policy = decoded(policy)?;
            let named = |field| policy.str_at(&["spec", "paramKind", field]).to_owned();
            Some((named("apiVersion"), named("kind")))
        });
        ParameterKinds(kinds.filter(|(_, kind)| !kind.is_empty()).collect())
    }

    /// The step of a document.
    pub fn step(&self, document: &CheckedDocument) -> InstallStep {
        match step_of_kind(document) {
            InstallStep::Rest if !self.0.is_empty() => {
                let kind = (document.api_version.clone(), document.kind.clone());
                match self.0.contains(&kind) {
                    true => InstallStep::Parameters,
                    false => InstallStep::Rest,
                }
            }
            step => step,
        }
    }
}

fn step_of_kind(document: &CheckedDocument) -> InstallStep {
    let group = group(&document.api_version);
    let row = STEPS.iter().find(|(of, kind, _)| *of == group && *kind == document.kind);
    row.map_or(InstallStep::Rest, |(.., step)| *step)
}

/// The tree of a document.
pub fn decoded(document: &CheckedDocument) -> Option<Value> {
    yaml::decode_any(&document.body, Unknown::Ignore).ok().map(|decoded| decoded.value)
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
