//! Config maps in `kube-system` by which the server tells others about itself.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, Informer, WorkQueue, run};
use kevel_registry::storage::Storage;

const NAMESPACE: &str = "kube-system";
/// Interval of checks without an event.
const RESYNC: Duration = Duration::from_secs(60);
/// Interval at which its sources are looked at: as often as files are (`kevel_pki::Dynamic`), which read their metadata only.
const LOOK: Duration = Duration::from_secs(1);

/// A config map that is kept.
pub struct ConfigMap<F, S> {
    pub name: &'static str,
    /// Computes the wanted data from the present data.
    pub data: F,
    /// The sources of `data`; the config map is set right as soon as it changes.
    pub sources: S,
}

/// Keeps a config map: makes it when it is missing, and sets right what it holds.
pub fn keep<F, S, T>(
    client: Client,
    config_maps: Arc<Storage>,
    kept: ConfigMap<F, S>,
) -> impl Future<Output = ()> + Send + 'static
where
    F: Fn(&Map) -> Result<Map, String> + Send + Sync + 'static,
    S: Fn() -> T + Send + Sync + 'static,
    T: PartialEq + Send + Sync + 'static,
{
    let name = kept.name;
    let kept = Arc::new(kept);
    let key = format!("{NAMESPACE}/{name}");
    let queue = WorkQueue::new(Backoff::default());
    let heard = queue.clone();
    let informer = Informer::new(config_maps.cache.clone()).for_each(move |object| {
        if object.key() == key {
            heard.add(name);
        }
    });
    let resync = {
        let (queue, kept) = (queue.clone(), kept.clone());
        async move {
            loop {
                // Read before the config map is: a change after that is noticed.
                let seen = (kept.sources)();
                queue.add(name);
                let _ = tokio::time::timeout(RESYNC, changed(&kept.sources, &seen)).await;
            }
        }
    };
    let reconcile = move |_| {
        let (client, kept) = (client.clone(), kept.clone());
        async move { reconcile(&client, &kept).await }
    };
    async move {
        tokio::join!(informer, resync, run(queue, name, 1, reconcile));
    }
}

/// Waits until the sources are no longer as they were seen.
async fn changed<T: PartialEq>(sources: impl Fn() -> T, seen: &T) {
    while sources() == *seen {
        tokio::time::sleep(LOOK).await;
    }
}

async fn reconcile<F, S>(client: &Client, kept: &ConfigMap<F, S>) -> Result<(), String>
where
    F: Fn(&Map) -> Result<Map, String>,
{
    let collection = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let path = format!("{collection}/{}", kept.name);
    let existing = match client.get(&path).await {
        Ok(existing) => Some(existing),
        Err(error) if error.reason() == reason::NOT_FOUND => None,
        Err(error) => return Err(error.to_string()),
    };
    let empty = Map::new();
    let held = existing.as_ref().and_then(|object| object.at(&["data"])?.as_map());
    let data = (kept.data)(held.unwrap_or(&empty))?;
    if held == Some(&data) || (existing.is_some() && data.is_empty() && held.is_none()) {
        return Ok(());
    }
    let written = match existing {
        Some(mut object) => {
            if let Some(object) = object.as_map_mut() {
                object.insert("data", data.into());
            }
            client.update(&path, &object).await
        }
        None => {
            ensure_namespace(client).await.map_err(|error| error.to_string())?;
            client.create(&collection, &named(kept.name, [("data", data.into())])).await
        }
    };
    written.map(drop).or_else(|error| match error.reason() {
        // Another writer was faster; the controller will see its event.
        reason::ALREADY_EXISTS | reason::CONFLICT => Ok(()),
        _ => Err(error.to_string()),
    })
}

async fn ensure_namespace(client: &Client) -> Result<(), StatusError> {
    if client.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await.is_ok() {
        return Ok(());
    }
    match client.create("/api/v1/namespaces", &named(NAMESPACE, [])).await {
        Err(error) if error.reason() != reason::ALREADY_EXISTS => Err(error),
        _ => Ok(()),
    }
}

fn named<const N: usize>(name: &str, fields: [(&str, Value); N]) -> Value {
    let metadata = Map::from_iter([("name", Value::from(name))]);
    let mut object = Map::from_iter(fields);
    object.insert("metadata", metadata.into());
    object.into()
}
