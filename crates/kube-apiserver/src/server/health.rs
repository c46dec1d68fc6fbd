//! The health checks that every server has, whatever it serves.

use std::time::Duration;

use kevel_server::health::{Check, Health};
use kevel_store::Probe;

use super::config::{Config, duration};

/// | check | red when | asked on |
/// | --- | --- | --- |
/// | `ping`, `log` | never | all |
/// | `etcd` | the store does not answer, or cannot write, within `--etcd-healthcheck-timeout` | all |
/// | `etcd-readiness` | the same within `--etcd-readycheck-timeout` | `/readyz` |
/// | `tasks` | a task that must live has ended | all |
/// | `watch-cache` | nobody follows the store any more | all |
/// | | its watch does not work: what is read grows old | `/readyz`, `/healthz` |
/// | | a resource cannot be loaded | `/healthz` |
/// | `storage-records` | an object cannot be read | `/healthz` |
///
/// The names of the first are the reference's, whichever store it is. What concerns one resource or
/// object is no reason to restart a server, or to send its requests to another, which has the same
/// store: it is for somebody to look at.
pub fn checks(config: &Config) -> Health {
    let flags = &config.options.flags;
    let mut health = Health::new(duration(flags.generic.livez_grace_period));
    health.add(Check::ping());
    health.add(Check::log());
    let probe = Probe::new(config.engine.clone());
    let timeout = duration(flags.etcd.etcd_healthcheck_timeout);
    health.add(store_check("etcd", &probe, timeout));
    let timeout = duration(flags.etcd.etcd_readycheck_timeout);
    health.add_readyz(store_check("etcd-readiness", &probe, timeout));
    health.add(config.lifecycle.tasks.check());
    let name = "watch-cache";
    let alive = {
        let caches = config.caches.clone();
        move || caches.alive().map_err(|error| error.to_string())
    };
    let watching = {
        let (caches, alive) = (config.caches.clone(), alive.clone());
        move || alive().and_then(|()| caches.watching())
    };
    let loading = {
        let (caches, watching) = (config.caches.clone(), watching.clone());
        move || watching().and_then(|()| caches.loading())
    };
    health.add_livez(Duration::ZERO, Check::new(name, alive));
    health.add_readyz(Check::new(name, watching));
    health.add_healthz(Check::new(name, loading));
    let caches = config.caches.clone();
    health.add_healthz(Check::new("storage-records", move || caches.readable()));
    health
}

fn store_check(name: &'static str, probe: &Probe, timeout: Duration) -> Check {
    let probe = probe.clone();
    let check = Check::later(name, move || {
        let probe = probe.clone();
        Box::pin(async move { probe.check(timeout).await.map_err(|error| error.to_string()) })
    });
    check.in_group(name)
}
