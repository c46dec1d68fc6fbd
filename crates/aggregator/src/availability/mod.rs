//! Available condition of APIServices (upstream: AvailableConditionController).

mod local;
mod metrics;
mod remote;

use kevel_api::time::Time;
use kevel_controller_runtime::Client;
use kevel_registry::resource::Resource;

pub(crate) use local::LocalAvailability;
pub(crate) use metrics::AvailabilityMetrics;
pub(crate) use remote::{Remote, RemoteAvailability, aggregator};

use crate::api_service::Condition;
use crate::auto_register::COLLECTION;

/// Writes a condition, unless the object has it already. Returns whether an available APIService becomes unavailable by
/// it.
async fn write(
    resource: &Resource,
    client: &Client,
    name: &str,
    condition: &Condition,
) -> Result<bool, String> {
    let object = match resource.find("", name).await {
        Err(error) if error.reason() == kevel_api::status::reason::NOT_FOUND => return Ok(false),
        object => object.map_err(|error| error.to_string())?,
    };
    let mut changed = object.clone();
    condition.set(&mut changed, Time::now(client.clock()));
    if changed == object {
        return Ok(false);
    }
    let Condition { status, reason, message } = condition;
    let old = object.list_at(&["status", "conditions"]).first().map(|old| old.str_at(&["status"]));
    let old = old.unwrap_or("Unknown");
    tracing::info!(name, old, status, reason, message, "changing APIService availability");
    let path = format!("{COLLECTION}/{name}/status");
    client.update(&path, &changed).await.map_err(|error| error.to_string())?;
    Ok(Condition::is_available(&object) && !Condition::is_available(&changed))
}
