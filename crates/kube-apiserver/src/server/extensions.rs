//! The API extensions server: what the options say of it, and its hooks.

use std::sync::Arc;

use kevel_extensions::{Controllers, DefinitionForm, Extensions, Place};
use kevel_server::health::Health;
use kevel_server::lifecycle::HookContext;
use kevel_server::resource::Rows;

use super::aggregator::service_resolver;
use super::config::Config;
use crate::options::StorageKind;

/// The extensions server. `rows` has the services that webhooks are reached by.
pub fn extensions(config: &Config, rows: &Rows) -> Extensions {
    let resolver = service_resolver(config, rows);
    let resolve = move |namespace: &str, name: &str, port: i64| {
        resolver.as_ref().map_err(String::clone)?.resolve(namespace, name, port)
    };
    let place = Place {
        prefix: config.options.options.etcd.etcd_prefix.clone(),
        engine: config.engine.clone(),
        caches: config.caches.clone(),
        resolve: Arc::new(resolve),
    };
    let form = match config.options.storage {
        StorageKind::Etcd => DefinitionForm::Etcd,
        StorageKind::Embedded | StorageKind::Memory => DefinitionForm::Served,
    };
    Extensions::new(place, form)
}

/// Adds the hooks of the extensions server. What was defined before is served when they have ended.
pub fn add_hooks(
    config: &Config,
    controllers: Controllers,
    health: &mut Health,
) -> Result<(), String> {
    let hooks = &config.lifecycle.hooks;
    let mut synced = controllers.synced();
    // The cache of definitions loads by itself.
    let informers = |_: HookContext| async { Ok(()) };
    health.add_boot(hooks.add_post_start("start-apiextensions-informers", informers)?);
    let start = |context: HookContext| async move {
        context.spawn("apiextensions-controllers", controllers.run());
        Ok(())
    };
    health.add_boot(hooks.add_post_start("start-apiextensions-controllers", start)?);
    let wait = |context: HookContext| async move {
        tokio::select! {
            synced = synced.wait_for(|synced| *synced) => drop(synced),
            () = context.stop.wait() => {}
        }
        Ok(())
    };
    health.add_boot(hooks.add_post_start("crd-informer-synced", wait)?);
    Ok(())
}
