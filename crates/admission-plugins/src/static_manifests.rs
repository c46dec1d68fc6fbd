//! Folders of webhooks and policies in files (`staticManifestsDir`).

use std::path::PathBuf;
use std::sync::Arc;

use kevel_admission::manifest::ManifestFolder;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::value::Value;
use kevel_features::Feature;

use super::Context;
use kevel_controlplane::manifest_errors;

/// Field of the plug-ins' configurations.
pub(super) const FIELD: &str = "staticManifestsDir";

/// Folder that a plug-in's configuration names, if it does (upstream: ValidateStaticManifestsDir).
pub(super) fn folder(
    context: &Context<'_>,
    configuration: &Value,
) -> Result<Option<ManifestFolder>, FieldError> {
    let said = configuration.str_at(&[FIELD]);
    if said.is_empty() {
        return Ok(None);
    }
    let field = Path::new(FIELD);
    if !(context.feature)(Feature::ManifestBasedAdmissionControlConfig) {
        let why = "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled";
        return Err(FieldError::forbidden(&field, why));
    }
    let path = PathBuf::from(said);
    if !path.is_absolute() {
        return Err(FieldError::invalid(&field, said, "must be an absolute file path"));
    }
    let about = std::fs::metadata(&path);
    let about = about
        .map_err(|error| FieldError::invalid(&field, said, format!("unable to read: {error}")))?;
    if !about.is_dir() {
        return Err(FieldError::invalid(&field, said, "must be a directory"));
    }
    let metrics = context.manifests.clone();
    Ok(Some(ManifestFolder { path, validate: Arc::new(manifest_errors), metrics }))
}
