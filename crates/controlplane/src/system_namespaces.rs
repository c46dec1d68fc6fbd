//! Controller of the system namespaces, which creates them at start and when they are missing (upstream:
//! SystemNamespaces).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, Informer, WorkQueue, run};
use kevel_registry::storage::Storage;

/// Names of the system namespaces.
const NAMES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];
/// Interval of resyncs.
const RESYNC: Duration = Duration::from_secs(60);

/// Creates the system namespaces whenever they are missing.
pub fn system_namespaces(
    client: Client,
    namespaces: Arc<Storage>,
) -> impl Future<Output = ()> + Send + 'static {
    let queue = WorkQueue::new(Backoff::default());
    let heard = queue.clone();
    let informer = Informer::new(namespaces.cache.clone()).for_each(move |object| {
        if NAMES.contains(&object.key()) {
            heard.add(object.key());
        }
    });
    let resync = {
        let queue = queue.clone();
        async move {
            loop {
                NAMES.iter().for_each(|name| queue.add(name));
                tokio::time::sleep(RESYNC).await;
            }
        }
    };
    let reconcile = move |name: String| {
        let client = client.clone();
        async move { ensure(&client, &name).await.map_err(|error| error.to_string()) }
    };
    async move {
        tokio::join!(informer, resync, run(queue, "system-namespaces", 1, reconcile));
    }
}

/// Creates a namespace if it does not exist. Called by components that need one at start before the controller has run.
pub(crate) async fn ensure(client: &Client, name: &str) -> Result<(), StatusError> {
    match client.get(&format!("/api/v1/namespaces/{name}")).await {
        Ok(_) => return Ok(()),
        Err(error) if error.reason() == reason::NOT_FOUND => {}
        Err(error) => return Err(error),
    }
    let metadata = Map::from_iter([("name", Value::from(name))]);
    let namespace = Map::from_iter([("metadata", Value::Map(metadata))]);
    match client.create("/api/v1/namespaces", &namespace.into()).await {
        Err(error) if error.reason() != reason::ALREADY_EXISTS => Err(error),
        _ => Ok(()),
    }
}
