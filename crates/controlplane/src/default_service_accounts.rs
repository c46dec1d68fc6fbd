//! Controller for servers without a controller manager: creates the ServiceAccount `default` and the ConfigMap
//! `kube-root-ca.crt` in every namespace.

use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_server::controller::{Backoff, Client, WorkQueue, inform, run};
use kevel_server::storage::{Storage, local_key};
use kevel_server::storages::Storages;

const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";

/// Controller of these two objects.
#[derive(Debug)]
pub struct DefaultServiceAccounts {
    client: Client,
    namespaces: Arc<Storage>,
    accounts: Arc<Storage>,
    config_maps: Arc<Storage>,
    /// CA bundle (PEM).
    authorities: String,
}

impl DefaultServiceAccounts {
    /// Makes the controller; `None` if a kind that it needs is not served.
    pub fn new(client: Client, storages: &Storages, authorities: String) -> Option<Self> {
        let storage = |plural| storages.get("", plural).cloned();
        Some(DefaultServiceAccounts {
            client,
            namespaces: storage("namespaces")?,
            accounts: storage("serviceaccounts")?,
            config_maps: storage("configmaps")?,
            authorities,
        })
    }

    /// Runs until dropped.
    pub async fn keep(self) {
        let queue = WorkQueue::new(Backoff::default());
        let hear = |storage: &Storage, name: &'static str| {
            let queue = queue.clone();
            inform(storage.cache.clone(), move |object| {
                if object.name() == name {
                    queue.add(object.namespace());
                }
            })
        };
        let accounts = hear(&self.accounts, ACCOUNT);
        let config_maps = hear(&self.config_maps, ROOT_CA);
        let heard = queue.clone();
        let namespaces =
            inform(self.namespaces.cache.clone(), move |namespace| heard.add(namespace.name()));
        let this = Arc::new(self);
        let reconcile = move |namespace: String| {
            let this = this.clone();
            async move { this.reconcile(&namespace).await.map_err(|error| error.to_string()) }
        };
        let work = run(queue, "default-service-accounts", 1, reconcile);
        tokio::join!(accounts, config_maps, namespaces, work);
    }

    async fn reconcile(&self, namespace: &str) -> Result<(), StatusError> {
        let Some(found) = find(&self.namespaces, namespace)? else { return Ok(()) };
        if !found.str_at(&["metadata", "deletionTimestamp"]).is_empty() {
            return Ok(());
        }
        if find(&self.accounts, &local_key(namespace, ACCOUNT))?.is_none() {
            let account = Map::from_iter([("metadata", named(ACCOUNT))]);
            self.create(namespace, "serviceaccounts", account).await?;
        }
        let wanted = Map::from_iter([("ca.crt", Value::from(self.authorities.as_str()))]);
        match find(&self.config_maps, &local_key(namespace, ROOT_CA))? {
            None => {
                let data = ("data", Value::Map(wanted));
                let config_map = Map::from_iter([("metadata", named(ROOT_CA)), data]);
                self.create(namespace, "configmaps", config_map).await
            }
            Some(mut found) => {
                let data = found.make_map(&["data"]);
                if *data == wanted {
                    return Ok(());
                }
                *data = wanted;
                let path = format!("/api/v1/namespaces/{namespace}/configmaps/{ROOT_CA}");
                self.client.update(&path, &found).await.map(drop)
            }
        }
    }

    async fn create(&self, namespace: &str, plural: &str, object: Map) -> Result<(), StatusError> {
        let path = format!("/api/v1/namespaces/{namespace}/{plural}");
        match self.client.create(&path, &object.into()).await {
            // Another component has created it, or the namespace is terminating.
            Err(error)
                if [reason::ALREADY_EXISTS, reason::NOT_FOUND, reason::FORBIDDEN]
                    .contains(&error.reason()) =>
            {
                Ok(())
            }
            created => created.map(drop),
        }
    }
}

fn named(name: &str) -> Value {
    Map::from_iter([("name", Value::from(name))]).into()
}

fn find(storage: &Storage, key: &str) -> Result<Option<Value>, StatusError> {
    let found = storage.cache.latest().get(key).map(|object| storage.tree(object));
    found.transpose().map_err(StatusError::internal)
}
