//! The namespaces that every cluster has: made at the start, made again when they are missing.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_server::controller::{Backoff, Client, WorkQueue, inform, run};
use kevel_server::storage::Storage;

/// The namespaces that must exist.
const NAMES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];
/// How often they are looked after when nothing is heard of them.
const RESYNC: Duration = Duration::from_secs(60);

/// Keeps the system's namespaces in being.
pub fn system_namespaces(
    client: Client,
    namespaces: Arc<Storage>,
) -> impl Future<Output = ()> + Send + 'static {
    let queue = WorkQueue::new(Backoff::default());
    let heard = queue.clone();
    let informer = inform(namespaces.cache.clone(), move |object| {
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

/// Makes a namespace if there is none. Who needs one of the system's at the start does not wait for it.
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
