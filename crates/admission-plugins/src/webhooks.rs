//! Plug-ins `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`.

use std::path::PathBuf;
use std::sync::Arc;

use kevel_admission::manifest::ManifestError;
use kevel_admission::predicates::GROUP;
use kevel_admission::webhook::{
    ClientManager, Config, MutatingAdmissionWebhook, ValidatingAdmissionWebhook, mutating,
    validating,
};
use kevel_api::field_error::{FieldError, Path};
use kevel_api::quote::quote;
use kevel_api::value::Value;

use super::configuration::decode_strings;
use super::{Context, Registration, static_manifests};

/// `MutatingAdmissionWebhook`, as the command line knows it.
pub const MUTATING: Registration = Registration::on(mutating::NAME, |context| {
    let config = config(context, mutating::NAME, "mutatingwebhookconfigurations")?;
    let folder = config.manifests.as_ref().map(|folder| folder.path.clone());
    let (plugin, follow) =
        MutatingAdmissionWebhook::new(config).map_err(|error| unloaded(folder, &error))?;
    (context.follow)(mutating::NAME, follow);
    Ok(Arc::new(plugin))
});

/// `ValidatingAdmissionWebhook`, as the command line knows it.
pub const VALIDATING: Registration = Registration::on(validating::NAME, |context| {
    let config = config(context, validating::NAME, "validatingwebhookconfigurations")?;
    let folder = config.manifests.as_ref().map(|folder| folder.path.clone());
    let (plugin, follow) =
        ValidatingAdmissionWebhook::new(config).map_err(|error| unloaded(folder, &error))?;
    (context.follow)(validating::NAME, follow);
    Ok(Arc::new(plugin))
});

fn config(context: &Context<'_>, name: &str, plural: &str) -> Result<Config, String> {
    let said = match (context.configuration)(name)? {
        Some(text) => decode_strings(&text, KIND, GO_TYPE, &[KUBECONFIG, static_manifests::FIELD])
            .map_err(|error| error.to_string())?,
        None => Value::Null,
    };
    let kubeconfig = kubeconfig(&said).map_err(|error| error.to_string())?;
    let manifests = static_manifests::folder(context, &said).map_err(|error| error.to_string())?;
    let (resolve, egress) = (context.resolve.clone(), context.egress.clone());
    let clients = ClientManager::new(kubeconfig.as_deref(), resolve, egress)?;
    Ok(Config {
        configurations: context.storage(GROUP, plural)?,
        manifests,
        matcher: context.matcher.clone(),
        authorizer: context.authorizer.clone(),
        clients: Arc::new(clients),
        metrics: context.webhooks.clone(),
        match_conditions: context.match_conditions.clone(),
    })
}

/// Kind of the configuration of both plug-ins, and its type in the reference.
const KIND: (&str, &str) = ("apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration");
const GO_TYPE: &str = "WebhookAdmission";

/// Field with the path of the users that webhooks are called as.
const KUBECONFIG: &str = "kubeConfigFile";

/// The file with the users that webhooks are called as, if the configuration names one.
fn kubeconfig(configuration: &Value) -> Result<Option<PathBuf>, FieldError> {
    let said = configuration.str_at(&[KUBECONFIG]);
    let path = PathBuf::from(said);
    match (said, path.is_absolute()) {
        ("", _) => Ok(None),
        (_, true) => Ok(Some(path)),
        (_, false) => {
            let (field, why) = (Path::new(KUBECONFIG), "must be an absolute file path");
            Err(FieldError::invalid(&field, said, why))
        }
    }
}

/// Message for manifests that cannot be loaded at the start.
fn unloaded(folder: Option<PathBuf>, error: &ManifestError) -> String {
    let folder = quote(&folder.unwrap_or_default().display().to_string());
    format!("failed to load static webhook manifests from {folder}: {error}")
}
