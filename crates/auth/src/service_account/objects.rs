//! The objects that tokens name.

use std::sync::{Arc, OnceLock};

use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::resource::Rows;
use kevel_server::storage::{Storage, local_key};
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

/// Where those objects are kept.
#[derive(Clone, Debug)]
pub struct Sources([Arc<Storage>; 4]);

impl Sources {
    /// The storages of a server's rows.
    pub fn of(rows: &Rows) -> Result<Self, String> {
        let storage = |kind: Kind| {
            let row = rows.get("", "v1", kind.plural());
            let storage = row.and_then(|row| row.storage.clone());
            storage.ok_or_else(|| format!("{} must be served", kind.plural()))
        };
        let [accounts, secrets, pods, nodes] = Kind::ALL.map(storage);
        Ok(Sources([accounts?, secrets?, pods?, nodes?]))
    }
}

/// Looks for objects. Authenticators are built before there is a server that has any: they are
/// told later where to look, and find nothing before.
#[derive(Debug, Default)]
pub struct Objects(OnceLock<Sources>);

impl Objects {
    /// Says where to look. Later calls change nothing.
    pub fn bind(&self, sources: Sources) {
        let _ = self.0.set(sources);
    }

    /// An object as the cache knows it. What the cache does not have may have been made just now.
    pub(super) async fn known(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Value, StatusError> {
        let storage = self.storage(kind)?;
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
        let storage = self.storage(kind)?;
        let found = storage.cache.get(&local_key(namespace, name), At::Consistent).await;
        match found.map_err(StatusError::internal)? {
            Some(object) => read(storage, &object),
            None => Err(StatusError::not_found(&GroupResource::new("", kind.plural()), name)),
        }
    }

    /// All secrets' storage, for those who look for more than one.
    pub(crate) fn secrets(&self) -> Option<&Arc<Storage>> {
        self.storage(Kind::Secret).ok()
    }

    fn storage(&self, kind: Kind) -> Result<&Arc<Storage>, StatusError> {
        let sources = self.0.get().ok_or_else(|| StatusError::internal("not started yet"))?;
        let [accounts, secrets, pods, nodes] = &sources.0;
        Ok(match kind {
            Kind::ServiceAccount => accounts,
            Kind::Secret => secrets,
            Kind::Pod => pods,
            Kind::Node => nodes,
        })
    }
}

fn read(storage: &Storage, object: &Object) -> Result<Value, StatusError> {
    let wire = object.wire().map_err(StatusError::internal)?;
    storage.read(wire).map_err(StatusError::internal)
}
