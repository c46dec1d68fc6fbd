//! Priority and fairness: its parts put together, and the hooks that run them.

use std::sync::Arc;

use kevel_controlplane::{config_consumer, config_producer};
use kevel_features::Feature;
use kevel_flowcontrol::{ListCost, ObjectStats, WorkEstimator};
use kevel_registry::resource::Resources;
use kevel_registry::storage::Storage;
use kevel_server::flowcontrol::{FlowControl, ResourceFacts};
use kevel_server::lifecycle::HookContext;
use kevel_server::metrics::Metrics;
use kevel_server::request_info::RequestInfo;

use super::config::Config;
use crate::options::CompletedOptions;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// Priority and fairness; `None` with `--enable-priority-and-fairness=false`.
pub fn flow_control(
    options: &CompletedOptions,
    metrics: &Arc<Metrics>,
) -> Option<Arc<FlowControl>> {
    let flags = &options.flags;
    if !flags.features.enable_priority_and_fairness {
        return None;
    }
    let generic = &flags.generic;
    let limit =
        generic.max_requests_inflight.saturating_add(generic.max_mutating_requests_inflight);
    let list_cost = match options.feature_gates.enabled(Feature::SizeBasedListCostEstimate) {
        true => ListCost::Size,
        false => ListCost::Count,
    };
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    Some(FlowControl::new(limit, WorkEstimator::new(list_cost), metrics))
}

/// Adds the hooks of the filter and of the controller that applies the configuration objects.
pub fn add_hooks(config: &Config) -> Result<(), String> {
    let hooks = &config.lifecycle.hooks;
    let Some(flow_control) = &config.flow_control else {
        // Its counters need no maintenance.
        return hooks.add_post_start("max-in-flight-filter", |_| async { Ok(()) });
    };
    let storage = |plural| config.storages.get(GROUP, plural).cloned();
    let storages = (storage("prioritylevelconfigurations"), storage("flowschemas"));
    let consumer = match storages {
        (Some(levels), Some(schemas)) => {
            let (flow_control, client) = (flow_control.clone(), config.client.clone());
            Some(config_consumer(flow_control, client, levels, schemas))
        }
        _ => None,
    };
    let name = "priority-and-fairness-config-consumer";
    let consume = move |context: HookContext| async move {
        if let Some(consumer) = consumer {
            context.spawn(name, consumer);
        }
        Ok(())
    };
    hooks.add_post_start(name, consume)?;
    let flow_control = flow_control.clone();
    // As long as requests are served: some wait for seats that only this gives back.
    let drained = config.lifecycle.signals.in_flight_requests_drained.wait();
    let filter = |context: HookContext| async move {
        context.tasks.spawn("priority-and-fairness-filter", async move {
            tokio::select! {
                () = flow_control.run() => {}
                () = drained => {}
            }
        });
        Ok(())
    };
    hooks.add_post_start("priority-and-fairness-filter", filter)?;
    // Objects are counted by their caches.
    hooks.add_post_start("storage-object-count-tracker-hook", |_| async { Ok(()) })
}

/// Adds the hook of the controller that maintains the bootstrap configuration, if its API is served.
pub fn add_producer(config: &Config) -> Result<(), String> {
    if config.storages.get(GROUP, "flowschemas").is_none()
        || config.storages.get(GROUP, "prioritylevelconfigurations").is_none()
    {
        return Ok(());
    }
    let producer = config_producer::hook(config.client.clone());
    config.lifecycle.hooks.add_post_start(config_producer::HOOK, producer)
}

/// Object counts and indexes of the rows of all servers.
pub struct RowFacts(pub Vec<Arc<Resources>>);

impl RowFacts {
    fn storage<T>(&self, info: &RequestInfo, read: impl Fn(&Storage) -> T) -> Option<T> {
        self.0.iter().find_map(|table| {
            let rows = table.current();
            let row = rows.get(&info.group, &info.version, &info.resource)?;
            row.storage.as_deref().map(&read)
        })
    }
}

impl ResourceFacts for RowFacts {
    fn stats(&self, info: &RequestInfo) -> Option<ObjectStats> {
        let (count, bytes) = self.storage(info, |storage| storage.cache.size())?;
        let count = count as u64;
        Some(ObjectStats { count, average_bytes: bytes.checked_div(count).unwrap_or(0) })
    }

    fn is_indexed(&self, info: &RequestInfo) -> bool {
        let Some(Ok(options)) = &info.list_options else { return false };
        let named = |field: &str| {
            options.fields.requires_exact_match(field).is_some_and(|value| !value.is_empty())
        };
        let indexed = |storage: &Storage| storage.indexed().any(named);
        self.storage(info, indexed).unwrap_or(false)
    }
}
