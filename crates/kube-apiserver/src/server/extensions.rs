//! The API extensions server: what the options say of it, and its hooks.

use std::sync::Arc;

use kevel_api::builtin;
use kevel_extensions::{BuiltIn, DefinitionForm, Extensions, RestOptions};
use kevel_features::Feature;
use kevel_server::lifecycle::HookContext;

use super::aggregator::service_resolver;
use super::config::Config;
use crate::options::StorageKind;

/// The extensions server.
pub fn extensions(config: &Config) -> Extensions {
    let resolver = service_resolver(config);
    let resolve = move |namespace: &str, name: &str, port: i64| {
        let resolver = resolver.as_ref().map_err(String::clone)?;
        resolver.resolve(namespace, name, port).map_err(String::from)
    };
    let enabled = |feature| config.options.feature_gates.enabled(feature);
    let options = RestOptions {
        prefix: config.options.flags.etcd.etcd_prefix.clone(),
        engine: config.backends.default.engine.clone(),
        caches: config.backends.default.caches.clone(),
        resolve: Arc::new(resolve),
        registry: config.storage_options.registry.clone(),
        egress: config.egress.clone(),
        converted: Arc::default(),
        built_in: built_in(config),
        cbor: config.cbor(),
        storage_version_hash: enabled(Feature::StorageVersionHash),
        observed_generations: enabled(Feature::CRDObservedGenerationTracking),
    };
    let form = match config.options.storage {
        StorageKind::Etcd => DefinitionForm::Etcd,
        StorageKind::Embedded | StorageKind::Memory | StorageKind::StandIn => {
            DefinitionForm::Served
        }
    };
    Extensions::new(options, form)
}

/// Versions and keys of the other servers of the chain.
fn built_in(config: &Config) -> BuiltIn {
    let enabled = config.options.resource_config();
    let served = builtin::resources()
        .iter()
        .filter(|resource| enabled.enabled(resource.group, resource.version, resource.path));
    let versions = served.map(|resource| (resource.group.to_owned(), resource.version.to_owned()));
    let prefixes = kevel_controlplane::locations(&config.options.flags.etcd.etcd_prefix);
    BuiltIn::new(versions, prefixes.into_iter().map(|(prefix, ..)| prefix))
}

/// Adds the hooks and controllers of the extensions server. Custom resources that were defined before are served when the
/// hooks have ended; the future is ready then, too.
pub fn start(
    config: &Config,
    extensions: &Extensions,
) -> Result<impl Future<Output = ()> + Send + 'static, String> {
    let hooks = &config.lifecycle.hooks;
    let controllers = extensions.controllers(config.client.clone())?;
    let (mut synced, mut known) = (controllers.synced(), controllers.synced());
    // The cache of definitions loads by itself.
    hooks.add_post_start("start-apiextensions-informers", |_| async { Ok(()) })?;
    hooks.run("start-apiextensions-controllers", controllers.run())?;
    let wait = |context: HookContext| async move {
        tokio::select! {
            synced = synced.wait_for(|synced| *synced) => drop(synced),
            () = context.stop.wait() => {}
        }
        Ok(())
    };
    hooks.add_post_start("crd-informer-synced", wait)?;
    Ok(async move { drop(known.wait_for(|known| *known).await) })
}
