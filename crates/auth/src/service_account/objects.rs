//! Objects that tokens refer to.

use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_clock::Clock;
use kevel_registry::storage::{Storage, local_key};
use kevel_registry::storages::Storages;
use kevel_store::cache::{At, Object};

use super::claims::Reference;

/// Kinds of objects that tokens refer to.
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

/// Storages of these objects.
#[derive(Debug)]
pub struct Objects([Arc<Storage>; 4]);

impl Objects {
    /// Takes the storages of a server.
    pub fn of(storages: &Storages) -> Result<Self, String> {
        let storage = |kind: Kind| storages.required("", kind.plural());
        let [accounts, secrets, pods, nodes] = Kind::ALL.map(storage);
        Ok(Objects([accounts?, secrets?, pods?, nodes?]))
    }

    /// Clock of the server.
    pub(crate) fn clock(&self) -> &Clock {
        &self.storage(Kind::ServiceAccount).registry.clock
    }

    /// Facts that `read` takes of a cached object. If the cache lacks the object, which may lag behind, it is read
    /// consistently. `read` runs once per state of the object: tokens come with every request, and accounts, secrets
    /// and pods may be large.
    pub(super) async fn known<T: Send + Sync + 'static>(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        read: fn(&Value) -> T,
    ) -> Result<Arc<T>, StatusError> {
        let storage = self.storage(kind);
        let found = storage.cache.latest().get(&local_key(namespace, name)).cloned();
        let object = match found {
            Some(object) => object,
            None => self.fresh(kind, namespace, name).await?,
        };
        storage.decoded(&object, read).map_err(StatusError::internal)
    }

    /// Facts that `read` takes of the current state of an object.
    pub(super) async fn current<T: Send + Sync + 'static>(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        read: fn(&Value) -> T,
    ) -> Result<Arc<T>, StatusError> {
        let object = self.fresh(kind, namespace, name).await?;
        self.storage(kind).decoded(&object, read).map_err(StatusError::internal)
    }

    /// Reference to the current state of an object.
    pub(super) async fn reference(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Reference, StatusError> {
        let found = self.current(kind, namespace, name, Lifetime::read).await?;
        Ok(found.reference.clone())
    }

    /// Current object, decoded and not cached.
    pub(super) async fn tree(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Value, StatusError> {
        let object = self.fresh(kind, namespace, name).await?;
        let wire = object.wire().map_err(StatusError::internal)?;
        self.storage(kind).read(wire).map_err(StatusError::internal)
    }

    async fn fresh(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Object>, StatusError> {
        let storage = self.storage(kind);
        let found = storage.cache.get(&local_key(namespace, name), At::Consistent).await;
        let found = found.map_err(StatusError::internal)?;
        found.ok_or_else(|| StatusError::not_found(&GroupResource::new("", kind.plural()), name))
    }

    /// Storage of secrets, for lookups of several.
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

/// Identity of an object, and the time of its deletion.
#[derive(Debug)]
pub(super) struct Lifetime {
    pub reference: Reference,
    /// `deletionTimestamp`; empty without one.
    deleted: String,
}

impl Lifetime {
    pub fn read(object: &Value) -> Self {
        let deleted = object.str_at(&["metadata", "deletionTimestamp"]).to_owned();
        Lifetime { reference: Reference::of(object), deleted }
    }

    /// True if the deletionTimestamp is before a time. One that cannot be parsed counts as past.
    pub fn ended_before(&self, moment: i64) -> bool {
        let time = self.deleted.parse::<Time>();
        !self.deleted.is_empty() && time.map_or(true, |time| time.seconds < moment)
    }

    /// True if there is a deletionTimestamp.
    pub fn has_end(&self) -> bool {
        !self.deleted.is_empty()
    }
}
