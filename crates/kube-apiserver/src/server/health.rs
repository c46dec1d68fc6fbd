//! The health checks that every server has, whatever it serves.

use std::sync::Arc;
use std::time::Duration;

use kevel_server::health::{Check, Health};
use kevel_store::Probe;
use kevel_store::cache::Caches;

use super::config::{Config, duration};
use super::encryption;

/// | check | red when | asked on |
/// | --- | --- | --- |
/// | `ping`, `log` | never | all |
/// | `etcd`, `etcd-override-N` | the store does not answer, or cannot write, within `--etcd-healthcheck-timeout` | all |
/// | `etcd-readiness` | the same within `--etcd-readycheck-timeout` | `/readyz` |
/// | `tasks` | a task that must live has ended | all |
/// | `watch-cache` | nobody follows the store any more | all |
/// | | its watch does not work: what is read grows old | `/readyz`, `/healthz` |
/// | | a resource cannot be loaded | `/healthz` |
/// | `storage-records` | an object cannot be read | `/healthz` |
/// | `kms-providers` | a KMS plugin is not well; only with plugins, or if they may come | `/readyz`, `/healthz` |
///
/// The names of the first are the reference's, whichever store it is. What concerns one resource or
/// object is no reason to restart a server, or to send its requests to another, which has the same
/// store: it is for somebody to look at.
pub fn checks(config: &Config) -> Health {
    let flags = &config.options.flags;
    let mut health = Health::new(duration(flags.generic.livez_grace_period));
    health.add(Check::ping());
    health.add(Check::log());
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
    health
}

fn store_check(name: String, group: &'static str, probe: &Probe, timeout: Duration) -> Check {
    let probe = probe.clone();
    let check = Check::later(name, move || {
        let probe = probe.clone();
        Box::pin(async move { probe.check(timeout).await.map_err(|error| error.to_string()) })
    });
    check.in_group(group)
}
