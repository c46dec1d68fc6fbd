//! `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`: somebody else changes and refuses what is written.

use std::path::PathBuf;
use std::sync::Arc;

use kevel_admission::predicates::GROUP;
use kevel_admission::webhook::{
    ClientManager, Config, MutatingAdmissionWebhook, ValidatingAdmissionWebhook, mutating,
    validating,
};
use kevel_api::field_error::{FieldError, Path};
use kevel_api::quote::quote;

use super::{Context, Registration, configuration};

/// `MutatingAdmissionWebhook`, as the command line knows it.
pub const MUTATING: Registration = Registration::on(mutating::NAME, |context| {
    let config = config(context, mutating::NAME, "mutatingwebhookconfigurations")?;
    let (plugin, follow) = MutatingAdmissionWebhook::new(config);
    (context.follow)(mutating::NAME, follow);
    Ok(Arc::new(plugin))
});

/// `ValidatingAdmissionWebhook`, as the command line knows it.
pub const VALIDATING: Registration = Registration::on(validating::NAME, |context| {
    let config = config(context, validating::NAME, "validatingwebhookconfigurations")?;
    let (plugin, follow) = ValidatingAdmissionWebhook::new(config);
    (context.follow)(validating::NAME, follow);
    Ok(Arc::new(plugin))
});

fn config(context: &Context<'_>, name: &str, plural: &str) -> Result<Config, String> {
    let kubeconfig = kubeconfig(context, name)?;
    let (resolve, egress) = (context.resolve.clone(), context.egress.clone());
    let clients = ClientManager::new(kubeconfig.as_deref(), resolve, egress)?;
    Ok(Config {
        configurations: context.storage(GROUP, plural)?,
        matcher: context.matcher.clone(),
        authorizer: context.authorizer.clone(),
        clients: Arc::new(clients),
        metrics: context.webhooks.clone(),
        match_conditions: context.match_conditions.clone(),
    })
}

/// What a plug-in's configuration is.
const KINDS: [(&str, &str); 1] = [("apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration")];

/// The file with the users that webhooks are called as, if the configuration names one.
fn kubeconfig(context: &Context<'_>, name: &str) -> Result<Option<PathBuf>, String> {
    let Some(text) = (context.configuration)(name)? else { return Ok(None) };
    let config = configuration::decode(&text, &KINDS)?;
    let folder = config.str_at(&["staticManifestsDir"]);
    if !folder.is_empty() {
        // The gate is always off here: who switches it on is refused.
        return Err(format!(
            "static webhook manifests dir {} configured but ManifestBasedAdmissionControlConfig \
             feature gate is not enabled",
            quote(folder)
        ));
    }
    let path = PathBuf::from(config.str_at(&["kubeConfigFile"]));
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    match path.is_absolute() {
        true => Ok(Some(path)),
        false => {
            let (field, why) = (Path::new("kubeConfigFile"), "must be an absolute file path");
            Err(FieldError::invalid(&field, config.str_at(&["kubeConfigFile"]), why).to_string())
        }
    }
}
