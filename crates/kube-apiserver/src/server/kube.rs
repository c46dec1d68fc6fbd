//! The server of the built-in kinds: its hooks and controllers.

use std::sync::Arc;

use kevel_auth::bootstrap;
use kevel_controller_runtime::{LeaderElectionTimers, LeaderElector};
use kevel_controlplane::{
    IdentityLease, LeaderElectionController, StorageVersionManager, collect_identity_leases,
    priority_classes, system_namespaces,
};
use kevel_features::Feature;
use kevel_registry::resource::Resources;
use kevel_server::handler::Filter;

use super::config::{Config, duration};
use super::{flowcontrol, health, peers, services};

/// The hooks and controllers of the server of the built-in kinds.
pub fn start(config: &Config) -> Result<(), String> {
    let Config { authentication, authorization, certificates, options, storages, client, .. } =
        config;
    let hooks = &config.lifecycle.hooks;
    if authorization.uses_rbac {
        let on = |name: &&str| {
            Feature::from_name(name).is_some_and(|gate| options.feature_gates.enabled(gate))
        };
        let on = bootstrap::gates().into_iter().filter(on).collect();
        hooks.add_post_start(bootstrap::HOOK, bootstrap::hook(client.clone(), on))?;
    }
    if storages.get("scheduling.k8s.io", "priorityclasses").is_some() {
        hooks.add_post_start(priority_classes::HOOK, priority_classes::hook(client.clone()))?;
    }
    health::add_hooks(config)?;
    flowcontrol::add_producer(config)?;
    services::start(config)?;
    peers::start(config)?;
    let reload = options.flags.etcd.encryption_provider_config_automatic_reload;
    if let Some(encryption) = config.encryption.clone().filter(|_| reload) {
        hooks.run("start-encryption-provider-config-automatic-reload", encryption.follow())?;
    }
    let mut controllers = authentication.controllers(options, certificates, storages, client)?;
    let namespaces = system_namespaces(client.clone(), storages.required("", "namespaces")?);
    controllers.push(("start-system-namespaces-controller", Box::pin(namespaces)));
    controllers.into_iter().try_for_each(|(name, controller)| hooks.run(name, controller))?;
    if options.feature_gates.enabled(Feature::CoordinatedLeaderElection) {
        start_leader_election(config)?;
    }
    if options.feature_gates.enabled(Feature::APIServerIdentity) {
        let peer_address = peers::address(options)?.map(|address| address.to_string());
        let (id, hostname) = (options.server_id(), options.hostname.clone());
        let lease = IdentityLease::new(client.clone(), id, hostname, peer_address);
        hooks.run("start-kube-apiserver-identity-lease-controller", lease.keep())?;
        let collector = collect_identity_leases(client.clone());
        hooks.run("start-kube-apiserver-identity-lease-garbage-collector", collector)?;
        let give_back = || async move {
            lease.give_back().await;
            Ok(())
        };
        hooks.add_pre_shutdown("stop-kube-apiserver-identity-lease-controller", give_back)?;
    }
    Ok(())
}

/// Lets one of the cluster's servers choose the holders of leases.
fn start_leader_election(config: &Config) -> Result<(), String> {
    let Config { client, options, storages, lifecycle, .. } = config;
    let flags = &options.flags.misc;
    let timers = LeaderElectionTimers {
        lease_duration: duration(flags.coordinated_leadership_lease_duration),
        renew_deadline: duration(flags.coordinated_leadership_renew_deadline),
        retry_period: duration(flags.coordinated_leadership_retry_period),
    };
    let hook = "start-kube-apiserver-coordinated-leader-election-controller";
    // Without candidates no leader is elected, and the server does not become ready: see `health::informer_sync`.
    let Some(candidates) = health::lease_candidates(config) else {
        return lifecycle.hooks.add_post_start(hook, |_| async { Ok(()) });
    };
    let leases = storages.required("coordination.k8s.io", "leases")?;
    let controller = LeaderElectionController::new(client.clone(), leases, candidates);
    let name = LeaderElectionController::NAME;
    let elector = LeaderElector::new(client.clone(), name, &options.hostname, timers);
    let release = elector.clone();
    let run = elector.run(move |over| {
        let controller = controller.clone();
        async move {
            tokio::select! {
                () = controller.run() => {}
                () = over.wait() => {}
            }
        }
    });
    lifecycle.hooks.run(hook, run)?;
    let release = || async move { release.release().await.map_err(|error| error.to_string()) };
    lifecycle.hooks.add_pre_shutdown("stop-coordinated-leader-election-controller", release)
}

/// Publishes this server's storage versions to its peers; returns the filter that delays writes until then.
pub fn storage_versions(
    config: &Config,
    tables: &[Arc<Resources>],
) -> Result<Option<Arc<dyn Filter>>, String> {
    let options = &config.options;
    let gates = [Feature::StorageVersionAPI, Feature::APIServerIdentity];
    if !gates.iter().all(|gate| options.feature_gates.enabled(*gate)) {
        return Ok(None);
    }
    let manager = StorageVersionManager::new(config.client.clone(), options.server_id(), tables);
    let manager = Arc::new(manager);
    let start = manager.clone();
    let hook = |context| start.start(context);
    config.lifecycle.hooks.add_post_start(StorageVersionManager::HOOK, hook)?;
    Ok(Some(manager))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_of_bootstrap_roles_exist() {
        for name in bootstrap::gates() {
            assert!(Feature::from_name(name).is_some(), "{name}");
        }
    }
}
