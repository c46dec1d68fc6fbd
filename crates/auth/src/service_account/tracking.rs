//! Start of the tracking of legacy tokens: the cleaner of unused tokens must not count the time before it.

use std::future::Future;
use std::sync::Arc;

use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_clock::Clock;
use kevel_controller_runtime::Client;
use kevel_registry::storage::Storage;

use crate::config_map::{self, ConfigMap};

/// The name of the post-start hook.
pub const HOOK: &str = "start-legacy-token-tracking-controller";

const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";

/// Controller of the ConfigMap with the start of the tracking.
pub fn controller(
    client: Client,
    config_maps: Arc<Storage>,
) -> impl Future<Output = ()> + Send + 'static {
    let clock = client.clock().clone();
    let data = move |existing: &Map| since(existing, &clock);
    config_map::keep(client, config_maps, ConfigMap { name: NAME, data, sources: || () })
}

/// A day that is there stays.
fn since(existing: &Map, clock: &Clock) -> Result<Map, String> {
    let mut data = existing.clone();
    let day = |text: &str| format!("{text}T00:00:00Z").parse::<Time>().is_ok();
    if !data.get(SINCE).and_then(Value::as_str).is_some_and(day) {
        let today: String = Time::now(clock).to_string().chars().take(10).collect();
        data.insert(SINCE, today.as_str().into());
    }
    Ok(data)
}
