//! `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`: writes are refused and changed by expressions.

use std::sync::Arc;

use kevel_admission::policy::{Config, MutatingAdmissionPolicy, ValidatingAdmissionPolicy};
use kevel_admission::policy::{mutating, validating};
use kevel_admission::predicates::GROUP;
use kevel_api::field_error::{FieldError, Path};
use kevel_server::admission::Plugin;

use super::{Context, Registration, configuration};
use kevel_features::Feature;

/// The last to change objects, but for webhooks.
pub const MUTATING: Registration = Registration::on(mutating::NAME, |context| {
    match (context.feature)(Feature::MutatingAdmissionPolicy) {
        true => {
            check_configuration(context, mutating::NAME)?;
            let config =
                config(context, "mutatingadmissionpolicies", "mutatingadmissionpolicybindings")?;
            let (plugin, follow) = MutatingAdmissionPolicy::new(config);
            (context.follow)(mutating::NAME, follow);
            Ok(Arc::new(plugin))
        }
        false => Ok(Arc::new(Disabled)),
    }
});

/// Judges what the others made of an object.
pub const VALIDATING: Registration = Registration::on(validating::NAME, |context| {
    check_configuration(context, validating::NAME)?;
    let config =
        config(context, "validatingadmissionpolicies", "validatingadmissionpolicybindings")?;
    let (plugin, follow) = ValidatingAdmissionPolicy::new(config);
    (context.follow)(validating::NAME, follow);
    Ok(Arc::new(plugin) as Arc<dyn Plugin>)
});

/// What a plug-in is whose feature is off.
struct Disabled;

impl Plugin for Disabled {
    fn name(&self) -> &'static str {
        mutating::NAME
    }
}

fn config(context: &Context<'_>, policies: &str, bindings: &str) -> Result<Config, String> {
    Ok(Config {
        policies: context.storage(GROUP, policies)?,
        bindings: context.storage(GROUP, bindings)?,
        matcher: context.matcher.clone(),
        tables: context.tables.clone(),
        authorizer: context.authorizer.clone(),
        metrics: context.metrics.clone(),
        match_conditions: context.match_conditions.clone(),
    })
}

/// Policies in files are not there yet: who wants them must not believe that they are enforced.
fn check_configuration(context: &Context<'_>, name: &str) -> Result<(), String> {
    let Some(text) = (context.configuration)(name)? else { return Ok(()) };
    let kind = format!("{name}Configuration");
    let decoded = configuration::decode(&text, &[("apiserver.config.k8s.io/v1", &kind)])?;
    if decoded.str_at(&["staticManifestsDir"]).is_empty() {
        return Ok(());
    }
    let root = Path::new("staticManifestsDir");
    // The gate is always off here: who switches it on is refused.
    let why = "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled";
    Err(FieldError::forbidden(&root, why).to_string())
}
