//! Encryption at rest (`--encryption-provider-config`).

use std::path::Path;
use std::sync::Arc;

use kevel_controlplane::locations;
use kevel_encryption::{DynamicTransformers, EncryptionMetrics, Location, Options};
use kevel_features::Feature;
use kevel_server::health::Check;
use kevel_server::metrics::Metrics;
use kevel_store::keys;

use crate::options::CompletedOptions;

/// Transformers of the file, if one is configured.
pub async fn transformers(
    options: &CompletedOptions,
    metrics: &Metrics,
) -> Result<Option<Arc<DynamicTransformers>>, String> {
    // Dashboards find some of them at zero where nothing is encrypted.
    let encryption_metrics = Arc::new(EncryptionMetrics::new(metrics));
    let flags = &options.flags.etcd;
    let file = flags.encryption_provider_config.as_str();
    if file.is_empty() {
        return Ok(None);
    }
    let location = |(prefix, group, resource)| Location { prefix, group, resource };
    let encryption_options = Options {
        root: keys::root(&flags.etcd_prefix),
        locations: locations(&flags.etcd_prefix).into_iter().map(location).collect(),
        kms_v1: options.feature_gates.enabled(Feature::KMSv1),
        server_id: options.server_id(),
        clock: options.clock.clone(),
        ..Options::default()
    };
    let reload = flags.encryption_provider_config_automatic_reload;
    let loaded = DynamicTransformers::load(
        Path::new(file),
        reload,
        encryption_options,
        metrics,
        encryption_metrics,
    );
    Ok(Some(Arc::new(loaded.await?)))
}

/// Whether the plug-ins are well, by the reference's names.
pub fn checks(transformers: &Arc<DynamicTransformers>) -> Vec<Check> {
    let one = |index: usize| {
        let transformers = transformers.clone();
        Check::later(format!("kms-provider-{index}"), move || {
            let transformers = transformers.clone();
            Box::pin(async move { transformers.check_one(index).await })
        })
    };
    if let Some(count) = transformers.checks_apart() {
        return (0..count).map(one).collect();
    }
    let transformers = transformers.clone();
    let all = Check::later("kms-providers", move || {
        let transformers = transformers.clone();
        Box::pin(async move { transformers.check().await })
    });
    vec![all]
}
