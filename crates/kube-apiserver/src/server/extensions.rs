//! The API extensions server: what the options say of it, and its hooks.

use std::sync::Arc;

use kevel_api::value::Value;
use kevel_extensions::{Controllers, DefinitionForm, Extensions, Place};
use kevel_server::health::Health;
use kevel_server::lifecycle::HookContext;
use kevel_server::resource::Rows;

use super::config::Config;
use crate::options::StorageKind;

/// The extensions server. `rows` has the services that webhooks are reached by.
pub fn extensions(config: &Config, rows: &Rows) -> Extensions {
    let services = rows.get("", "v1", "services").and_then(|row| row.storage.clone());
    let resolve = move |namespace: &str, name: &str, port: i64| {
        let services = services.as_ref().ok_or("services are not served")?;
        let snapshot = services.cache.latest();
        let missing = || format!("service \"{name}\" not found");
        let object = snapshot.get(&format!("{namespace}/{name}")).ok_or_else(missing)?;
        let service = services.read(object.wire()?)?;
        authority(&service, port)
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

/// Where a service is reached from inside the cluster.
fn authority(service: &Value, port: i64) -> Result<String, String> {
    let name = service.str_at(&["metadata", "name"]);
    if service.str_at(&["spec", "type"]) == "ExternalName" {
        return Ok(format!("{}:{port}", service.str_at(&["spec", "externalName"])));
    }
    let ports = service.list_at(&["spec", "ports"]);
    if !ports.iter().any(|known| known.at(&["port"]).and_then(Value::as_int) == Some(port)) {
        return Err(format!("no service port {port} found for service \"{name}\""));
    }
    match service.str_at(&["spec", "clusterIP"]) {
        "" | "None" => Err(format!("cannot route to service with ClusterIP \"None\": \"{name}\"")),
        address if address.contains(':') => Ok(format!("[{address}]:{port}")),
        address => Ok(format!("{address}:{port}")),
    }
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
        tokio::spawn(async move {
            tokio::select! {
                () = controllers.run() => {}
                () = context.stop.wait() => {}
            }
        });
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
