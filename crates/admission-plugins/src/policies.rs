//! `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`: writes are refused and changed by expressions.

use std::path::PathBuf;
use std::sync::Arc;

use kevel_admission::manifest::{ManifestError, ManifestFolder};
use kevel_admission::policy::{Config, MutatingAdmissionPolicy, ValidatingAdmissionPolicy};
use kevel_admission::policy::{mutating, validating};
use kevel_admission::predicates::GROUP;
use kevel_api::quote::quote;
use kevel_registry::admission::Plugin;

use super::configuration::decode_strings;
use super::{Context, Registration, static_manifests};
use kevel_features::Feature;

/// The last to change objects, but for webhooks.
pub const MUTATING: Registration = Registration::on(mutating::NAME, |context| {
    let kind = "MutatingAdmissionPolicyConfiguration";
    let manifests = manifests(context, mutating::NAME, kind)?;
    match (context.feature)(Feature::MutatingAdmissionPolicy) {
        true => {
            let (policies, bindings) =
                ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings");
            let folder = manifests.as_ref().map(|folder| folder.path.clone());
            let config = config(context, policies, bindings, manifests)?;
            let made = MutatingAdmissionPolicy::new(config);
            let (plugin, follow) = made.map_err(|error| unloaded(folder, &error))?;
            (context.follow)(mutating::NAME, follow);
            Ok(Arc::new(plugin))
        }
        false => Ok(Arc::new(Disabled)),
    }
});

/// Registration of `ValidatingAdmissionPolicy`.
pub const VALIDATING: Registration = Registration::on(validating::NAME, |context| {
    let kind = "ValidatingAdmissionPolicyConfiguration";
    let manifests = manifests(context, validating::NAME, kind)?;
    let (policies, bindings) = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
    let folder = manifests.as_ref().map(|folder| folder.path.clone());
    let config = config(context, policies, bindings, manifests)?;
    let made = ValidatingAdmissionPolicy::new(config);
    let (plugin, follow) = made.map_err(|error| unloaded(folder, &error))?;
    (context.follow)(validating::NAME, follow);
    Ok(Arc::new(plugin) as Arc<dyn Plugin>)
});

/// Plug-in whose feature gate is off: it does nothing.
struct Disabled;

impl Plugin for Disabled {
    fn name(&self) -> &'static str {
        mutating::NAME
    }
}

fn config(
    context: &Context<'_>,
    policies: &str,
    bindings: &str,
    manifests: Option<ManifestFolder>,
) -> Result<Config, String> {
    Ok(Config {
        policies: context.storage(GROUP, policies)?,
        bindings: context.storage(GROUP, bindings)?,
        manifests,
        matcher: context.matcher.clone(),
        tables: context.tables.clone(),
        authorizer: context.authorizer.clone(),
        metrics: context.metrics.clone(),
        match_conditions: context.match_conditions.clone(),
    })
}

/// Folder with policies and bindings that a plug-in's configuration names, if it does.
fn manifests(
    context: &Context<'_>,
    name: &str,
    kind: &'static str,
) -> Result<Option<ManifestFolder>, String> {
    let Some(text) = (context.configuration)(name)? else { return Ok(None) };
    let fields = [static_manifests::FIELD];
    let decoded = decode_strings(&text, ("apiserver.config.k8s.io/v1", kind), kind, &fields);
    let decoded = decoded.map_err(|error| error.to_string())?;
    static_manifests::folder(context, &decoded).map_err(|error| error.to_string())
}

/// Message for manifests that cannot be loaded at the start.
fn unloaded(folder: Option<PathBuf>, error: &ManifestError) -> String {
    let folder = quote(&folder.unwrap_or_default().display().to_string());
    format!("failed to load static policy manifests from {folder}: {error}")
}
