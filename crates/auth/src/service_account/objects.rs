//! The objects that tokens name.

use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::storage::{Storage, local_key};
use kevel_server::storages::Storages;
use kevel_store::cache::{At, Object};

/// The kinds of objects that tokens name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ServiceAccount,
    Secret,
    Pod,
    Node,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::ServiceAccount, Kind::Secret, Kind::Pod, Kind::Node];

    const fn plural(self) -> &'static str {
        match self {
            Kind::ServiceAccount => "serviceaccounts",
            Kind::Secret => "secrets",
            Kind::Pod => "pods",
            Kind::Node => "nodes",
        }
    }
}

/// Where those objects are kept, and looked for.
#[derive(Debug)]
pub struct Objects([Arc<Storage>; 4]);

impl Objects {
    /// Those of a server.
    pub fn of(storages: &Storages) -> Result<Self, String> {
        let storage = |kind: Kind| storages.required("", kind.plural());
        let [accounts, secrets, pods, nodes] = Kind::ALL.map(storage);
        Ok(Objects([accounts?, secrets?, pods?, nodes?]))
    }

    /// An object as the cache knows it. What the cache does not have may have been made just now.
    pub(super) async fn known(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Value, StatusError> {
        let storage = self.storage(kind);
        let found = storage.cache.latest().get(&local_key(namespace, name)).cloned();
        match found {
            Some(object) => read(storage, &object),
            None => self.fresh(kind, namespace, name).await,
        }
    }

    /// An object as it is.
    pub(super) async fn fresh(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Value, StatusError> {
        let storage = self.storage(kind);
        let found = storage.cache.get(&local_key(namespace, name), At::Consistent).await;
        match found.map_err(StatusError::internal)? {
            Some(object) => read(storage, &object),
            None => Err(StatusError::not_found(&GroupResource::new("", kind.plural()), name)),
        }
    }

    /// All secrets' storage, for those who look for more than one.
    pub(crate) fn secrets(&self) -> &Arc<Storage> {
        self.storage(Kind::Secret)
    }

    fn storage(&self, kind: Kind) -> &Arc<Storage> {
        let [accounts, secrets, pods, nodes] = &self.0;
        match kind {
            Kind::ServiceAccount => accounts,
            Kind::Secret => secrets,
            Kind::Pod => pods,
            Kind::Node => nodes,
        }
    }
}

fn read(storage: &Storage, object: &Object) -> Result<Value, StatusError> {
    let wire = object.wire().map_err(StatusError::internal)?;
    storage.read(wire).map_err(StatusError::internal)
}
