//! The health checks that every server has, whatever it serves.

use std::sync::Arc;
use std::time::Duration;

use kevel_features::Feature;
use kevel_registry::storage::Storage;
use kevel_server::health::{Check, Health};
use kevel_server::lifecycle::HookContext;
use kevel_store::Probe;
use kevel_store::cache::Caches;

use super::config::{Config, duration};
use super::encryption;

/// Resources that the server itself follows: for its authorizers, admission plug-ins and controllers.
const FOLLOWED: &[(&str, &str)] = &[
    ("", "limitranges"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "pods"),
    ("", "resourcequotas"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "ipaddresses"),
    ("networking.k8s.io", "servicecidrs"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "storageclasses"),
];

/// The post-start hooks in the order in which their checks are listed: that of the servers that they belong to, from the
/// inside out. One that is not here comes last.
const HOOKS: &[&str] = &[
    "start-apiserver-admission-initializer",
    "start-encryption-provider-config-automatic-reload",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "max-in-flight-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "start-kube-apiserver-coordinated-leader-election-controller",
    "peer-endpoint-reconciler-controller",
    "mixed-version-proxy-handler",
    "local-discovery-cache-sync",
    "peer-discovery-workers",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "aggregator-reload-proxy-client-cert",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-discovery-controller",
    "built-in-resources-storage-version-updater",
    "kube-apiserver-autoregistration",
    "autoregister-completion",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
];

/// | check | red when | asked on |
/// | --- | --- | --- |
/// | `ping`, `log` | never | all |
/// | `loopback-serving-certificate` | never: the server reaches itself without one | `/healthz`, `/livez` |
/// | `etcd`, `etcd-override-N` | the store does not answer, or cannot write, within `--etcd-healthcheck-timeout` | all |
/// | `etcd-readiness` | the same within `--etcd-readycheck-timeout` | `/readyz` |
/// | `informer-sync` | a resource that the server itself follows is not loaded yet | `/readyz` |
/// | `tasks` | a task that must live has ended | all |
/// | `watch-cache` | the task that follows the store has ended | all |
/// | | its watch does not work: what is read grows old | `/readyz`, `/healthz` |
/// | | a resource cannot be loaded | `/healthz` |
/// | `storage-records` | an object cannot be read | `/healthz` |
/// | `kms-providers` | a KMS plugin is not well; only with plugins, or if they may come | `/readyz`, `/healthz` |
///
/// The names of the first are the reference's, whichever store it is. What concerns one resource or
/// object is no reason to restart a server, or to send its requests to another, which has the same
/// store: an administrator should look at it. The checks of post-start hooks follow, in the order in which
/// the reference lists them.
pub fn checks(config: &Config) -> Health {
    let flags = &config.options.flags;
    let mut health = Health::new(duration(flags.generic.livez_grace_period));
    health.add(Check::ping());
    health.add(Check::log());
    let loopback = Check::new("loopback-serving-certificate", || Ok(()));
    health.add_healthz(loopback.clone());
    health.add_livez(Duration::ZERO, loopback);
    let healthy_within = duration(flags.etcd.etcd_healthcheck_timeout);
    let ready_within = duration(flags.etcd.etcd_readycheck_timeout);
    for (position, backend) in config.backends.all().enumerate() {
        let probe = Probe::new(backend.engine.clone());
        let (check, ready) = match position.checked_sub(1) {
            None => ("etcd".to_owned(), "etcd-readiness".to_owned()),
            Some(n) => (format!("etcd-override-{n}"), format!("etcd-override-readiness-{n}")),
        };
        health.add(store_check(check, "etcd", &probe, healthy_within));
        health.add_readyz(store_check(ready, "etcd-readiness", &probe, ready_within));
    }
    health.add_readyz(informer_sync(config));
    health.add(config.lifecycle.tasks.check());
    let name = "watch-cache";
    let caches = config.backends.all().map(|backend| backend.caches.clone());
    let caches: Arc<[Arc<Caches>]> = caches.collect();
    let alive = {
        let caches = caches.clone();
        move || {
            caches.iter().try_for_each(|caches| caches.alive()).map_err(|error| error.to_string())
        }
    };
    let watching = {
        let (caches, alive) = (caches.clone(), alive.clone());
        move || alive().and_then(|()| caches.iter().try_for_each(|caches| caches.watching()))
    };
    let loading = {
        let (caches, watching) = (caches.clone(), watching.clone());
        move || watching().and_then(|()| caches.iter().try_for_each(|caches| caches.loading()))
    };
    health.add_livez(Duration::ZERO, Check::new(name, alive));
    health.add_readyz(Check::new(name, watching));
    health.add_healthz(Check::new(name, loading));
    let readable = move || caches.iter().try_for_each(|caches| caches.readable());
    health.add_healthz(Check::new("storage-records", readable));
    if let Some(encryption) = config.encryption.as_ref().filter(|these| these.has_check()) {
        for check in encryption::checks(encryption) {
            health.add_healthz(check.clone());
            health.add_readyz(check);
        }
    }
    let mut hooks = config.lifecycle.hooks.checks();
    hooks.sort_by_key(|check| {
        let name = check.name().trim_start_matches("poststarthook/");
        HOOKS.iter().position(|hook| *hook == name).unwrap_or(HOOKS.len())
    });
    hooks.into_iter().for_each(|check| health.add_boot(check));
    health
}

/// Adds the hooks that say how far the caches are.
pub fn add_hooks(config: &Config) -> Result<(), String> {
    let hooks = &config.lifecycle.hooks;
    // What the server follows, it follows from the beginning.
    hooks.add_post_start("generic-apiserver-start-informers", |_| async { Ok(()) })?;
    let waits = Feature::WatchCacheInitializationPostStartHook;
    if !config.options.feature_gates.enabled(waits) {
        return Ok(());
    }
    let timeout = duration(config.options.flags.generic.storage_initialization_timeout);
    let storages: Vec<_> = config.storages.all().map(|(_, _, storage)| storage.clone()).collect();
    hooks.add_post_start("storage-readiness", move |context: HookContext| async move {
        let loaded = async {
            for storage in &storages {
                // A closed cache will not load.
                let _ = storage.cache.loaded().await;
            }
        };
        tokio::select! {
            waited = tokio::time::timeout(timeout, loaded) => match waited {
                Ok(()) => tracing::info!("Storage is ready for all registered resources"),
                Err(_) => tracing::warn!(
                    "Deadline exceeded while waiting for storage readiness... ignoring"
                ),
            },
            () = context.stop.wait() => {}
        }
        Ok(())
    })
}

/// Whether everything that the server itself follows is loaded.
fn informer_sync(config: &Config) -> Check {
    let elections = config.options.feature_gates.enabled(Feature::CoordinatedLeaderElection);
    let followed = FOLLOWED.iter().filter_map(|(group, plural)| config.storages.get(group, plural));
    let followed: Vec<Arc<Storage>> = followed.cloned().chain(lease_candidates(config)).collect();
    let missing = elections && lease_candidates(config).is_none();
    Check::new("informer-sync", move || {
        let waiting = followed.iter().filter(|storage| !storage.cache.is_loaded());
        let mut waiting: Vec<&str> = waiting.map(|storage| storage.kind.kind.as_ref()).collect();
        waiting.extend(missing.then_some("LeaseCandidate"));
        match waiting.len() {
            0 => Ok(()),
            n => Err(format!("{n} informers not started yet: [{}]", waiting.join(" "))),
        }
    })
}

/// Storage of LeaseCandidates, if the version that the election controller reads is served.
pub fn lease_candidates(config: &Config) -> Option<Arc<Storage>> {
    let (group, plural) = ("coordination.k8s.io", "leasecandidates");
    let elections = config.options.feature_gates.enabled(Feature::CoordinatedLeaderElection);
    let served = config.options.resource_config().enabled(group, "v1beta1", plural);
    config.storages.get(group, plural).filter(|_| elections && served).cloned()
}

fn store_check(name: String, group: &'static str, probe: &Probe, timeout: Duration) -> Check {
    let probe = probe.clone();
    let check = Check::later(name, move || {
        let probe = probe.clone();
        Box::pin(async move { probe.check(timeout).await.map_err(|error| error.to_string()) })
    });
    check.in_group(group)
}
