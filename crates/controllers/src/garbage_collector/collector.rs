//! Work on queued objects.

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};

use super::Collector;
use super::decision::{GarbageDecision, OwnerState, Propagation, decide};
use super::graph::GraphNode;
use super::identity::{
    FOREGROUND, ORPHAN, ObjectIdentity, OwnerReference, Uid, has_finalizer, is_deleted, owners,
};
use super::mapper::RestMapping;

/// Form of answers of which only metadata is read.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// Attempts to change an object that others change at the same time.
const ATTEMPTS: usize = 5;

/// Failure of an attempt.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    /// No API server serves the kind at present.
    #[error("unable to get REST mapping for {0}/{1}.")]
    NotMapped(String, String),
    /// A cluster-scoped object refers to a namespaced owner: a retry would not succeed.
    #[error("cluster-scoped objects cannot refer to namespaced owners")]
    NamespacedOwner,
    /// A request failed.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Some dependents could not be released.
    #[error("{}", .0.join(", "))]
    Orphaning(Vec<String>),
    /// The object has to be looked up again: no informer observes it.
    #[error("{0} hasn't been observed via informer yet")]
    NotObserved(ObjectIdentity),
}

type Attempt<T = ()> = Result<T, AttemptError>;

impl Collector {
    /// Looks at an object, and deletes it if its owners are gone.
    pub async fn attempt_to_delete(&self, uid: &str) -> Result<(), AttemptError> {
        let Some(node) = self.node(uid) else { return Ok(()) };
        match self.attempt(&node).await {
            Err(AttemptError::NamespacedOwner) => Ok(()),
            attempted => attempted,
        }
    }

    /// Releases an object's dependents, then the object.
    pub async fn attempt_to_orphan(&self, uid: &str) -> Result<(), AttemptError> {
        let Some(node) = self.node(uid) else { return Ok(()) };
        let mut failed = Vec::new();
        for dependent in &node.dependents {
            let Some(dependent) = self.node(dependent) else { continue };
            let owner = [node.identity.uid.clone()];
            if let Err(error) = self.remove_owners(&dependent.identity, &owner).await {
                failed.push(format!("orphaning {} failed, {error}", dependent.identity));
            }
        }
        if !failed.is_empty() {
            return Err(AttemptError::Orphaning(failed));
        }
        self.remove_finalizer(&node.identity, ORPHAN).await
    }

    fn node(&self, uid: &str) -> Option<GraphNode> {
        self.change(|graph| graph.node(uid).cloned())
    }

    async fn attempt(&self, node: &GraphNode) -> Attempt {
        if node.being_deleted && !node.deleting_dependents {
            return Ok(());
        }
        let identity = &node.identity;
        let mapping = self.mapping(&identity.api_version, &identity.kind).await?;
        let Some(latest) = self.get(&mapping, identity).await? else {
            self.change(|graph| graph.not_found(identity));
            return Ok(());
        };
        if node.is_virtual {
            if !mapping.is_monitored {
                return Err(AttemptError::NotObserved(identity.clone()));
            }
            // From here on an informer tells of its deletion.
            let mut confirmed = identity.clone();
            if !mapping.namespaced() {
                confirmed.namespace = "".into();
            }
            self.change(|graph| graph.confirm(confirmed));
        }
        if node.deleting_dependents {
            return self.wait_for_dependents(node).await;
        }
        let mut states = Vec::new();
        for reference in owners(&latest) {
            let state = self.owner_state(identity, &reference).await?;
            states.push((reference, state));
        }
        let waiting = self.change(|graph| {
            let dependents = graph.node(&identity.uid).map(|node| node.dependents.clone());
            let dependents = dependents.unwrap_or_default();
            let nodes = dependents.iter().filter_map(|uid| graph.node(uid));
            nodes.map(|node| node.deleting_dependents).collect::<Vec<bool>>()
        });
        match decide(&latest, &states, &waiting) {
            GarbageDecision::Keep => Ok(()),
            GarbageDecision::RemoveOwners(gone) => self.remove_owners(identity, &gone).await,
            GarbageDecision::Delete { propagation, unblock } => {
                let latest =
                    if unblock { self.unblock(&mapping, identity, &latest).await? } else { latest };
                self.delete(&mapping, identity, &latest, propagation).await
            }
        }
    }

    /// Removes the finalizer of foreground deletion when no dependent blocks it; otherwise lets dependents be deleted.
    async fn wait_for_dependents(&self, node: &GraphNode) -> Attempt {
        let blocking = self.change(|graph| {
            let node = graph.node(&node.identity.uid)?;
            let blocking = graph.blocking_dependents(node);
            Some(
                blocking
                    .map(|dependent| {
                        (dependent.identity.uid.clone(), dependent.deleting_dependents)
                    })
                    .collect::<Vec<(Uid, bool)>>(),
            )
        });
        let Some(blocking) = blocking else { return Ok(()) };
        if blocking.is_empty() {
            return self.remove_finalizer(&node.identity, FOREGROUND).await;
        }
        for (dependent, waits) in blocking {
            if !waits {
                self.attempt_to_delete.add(&dependent);
            }
        }
        Ok(())
    }

    /// State of an owner, from the server.
    async fn owner_state(
        &self,
        item: &ObjectIdentity,
        reference: &OwnerReference,
    ) -> Attempt<OwnerState> {
        let namespaced = reference.identity(&item.namespace);
        let cluster_scoped = ObjectIdentity { namespace: "".into(), ..namespaced.clone() };
        let absent =
            self.change(|graph| graph.absent.has(&cluster_scoped) || graph.absent.has(&namespaced));
        if absent {
            return Ok(OwnerState::Dangling);
        }
        let mapping = self.mapping(&reference.api_version, &reference.kind).await?;
        let identity = if mapping.namespaced() { namespaced } else { cluster_scoped };
        match self.get(&mapping, &identity).await? {
            None => {
                self.change(|graph| graph.absent.add(identity));
                Ok(OwnerState::Dangling)
            }
            Some(owner) if is_deleted(&owner) && has_finalizer(&owner, FOREGROUND) => {
                Ok(OwnerState::Waiting)
            }
            Some(_) => Ok(OwnerState::Solid),
        }
    }

    async fn mapping(&self, api_version: &str, kind: &str) -> Attempt<RestMapping> {
        let found = self.mapper.find(api_version, kind).await?;
        found.ok_or_else(|| AttemptError::NotMapped(api_version.to_owned(), kind.to_owned()))
    }

    /// Metadata of an object as it is stored; `None` if it, with this UID, does not exist.
    async fn get(
        &self,
        mapping: &RestMapping,
        identity: &ObjectIdentity,
    ) -> Attempt<Option<Value>> {
        if mapping.namespaced() && identity.namespace.is_empty() {
            return Err(AttemptError::NamespacedOwner);
        }
        match self.client.get_as(&mapping.path(identity), METADATA).await {
            Ok(found) => {
                Ok(Some(found).filter(|found| found.str_at(&["metadata", "uid"]) == &*identity.uid))
            }
            Err(error) if error.reason() == reason::NOT_FOUND => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes an object in the state that was decided about; other changes than of its owners do not count.
    async fn delete(
        &self,
        mapping: &RestMapping,
        identity: &ObjectIdentity,
        latest: &Value,
        propagation: Propagation,
    ) -> Attempt {
        let path = mapping.path(identity);
        let mut preconditions = Map::from_iter([
            ("uid", Value::from(&*identity.uid)),
            ("resourceVersion", latest.str_at(&["metadata", "resourceVersion"]).into()),
        ]);
        loop {
            let options = Map::from_iter([
                ("apiVersion", Value::from("v1")),
                ("kind", "DeleteOptions".into()),
                ("preconditions", preconditions.clone().into()),
                ("propagationPolicy", propagation.name().into()),
            ]);
            let error = match self.client.delete_with(&path, &options.into()).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if error.reason() == reason::NOT_FOUND {
                self.change(|graph| graph.not_found(identity));
                return Ok(());
            }
            if error.reason() != reason::CONFLICT || !preconditions.contains_key("resourceVersion")
            {
                return Err(error.into());
            }
            let Some(now) = self.get(mapping, identity).await? else {
                self.change(|graph| graph.not_found(identity));
                return Ok(());
            };
            if owners(&now) != owners(latest) {
                return Err(error.into());
            }
            preconditions.remove("resourceVersion");
        }
    }

    /// Removes references to owners from an object.
    async fn remove_owners(&self, identity: &ObjectIdentity, gone: &[Uid]) -> Attempt {
        self.patch_metadata(identity, |object| {
            let all = object.list_at(&["metadata", "ownerReferences"]);
            let is_gone =
                |reference: &&Value| gone.iter().any(|uid| **uid == *reference.str_at(&["uid"]));
            let rest: Vec<Value> =
                all.iter().filter(|reference| !is_gone(reference)).cloned().collect();
            (rest.len() != all.len()).then_some(("ownerReferences", rest))
        })
        .await
    }

    async fn remove_finalizer(&self, identity: &ObjectIdentity, finalizer: &str) -> Attempt {
        self.patch_metadata(identity, |object| {
            let all = object.list_at(&["metadata", "finalizers"]);
            let rest: Vec<Value> =
                all.iter().filter(|other| other.as_str() != Some(finalizer)).cloned().collect();
            (rest.len() != all.len()).then_some(("finalizers", rest))
        })
        .await
    }

    /// Makes an object's owner references not block, so that a cycle of foreground deletions ends.
    async fn unblock(
        &self,
        mapping: &RestMapping,
        identity: &ObjectIdentity,
        latest: &Value,
    ) -> Attempt<Value> {
        self.patch_metadata(identity, |object| {
            let mut references = object.list_at(&["metadata", "ownerReferences"]).to_vec();
            let mut changed = false;
            for reference in references.iter_mut().filter_map(Value::as_map_mut) {
                if reference.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true) {
                    reference.insert("blockOwnerDeletion", Value::Bool(false));
                    changed = true;
                }
            }
            changed.then_some(("ownerReferences", references))
        })
        .await?;
        Ok(self.get(mapping, identity).await?.unwrap_or_else(|| latest.clone()))
    }

    /// Changes a list in an object's metadata, unless `change` finds nothing to do or the object is gone.
    async fn patch_metadata(
        &self,
        identity: &ObjectIdentity,
        change: impl Fn(&Value) -> Option<(&'static str, Vec<Value>)>,
    ) -> Attempt {
        let mapping = self.mapping(&identity.api_version, &identity.kind).await?;
        let mut attempts = 0;
        loop {
            let Some(object) = self.get(&mapping, identity).await? else { return Ok(()) };
            let Some((field, list)) = change(&object) else { return Ok(()) };
            let list =
                if list.is_empty() { Value::Null } else { Value::List(list.into_iter().collect()) };
            let metadata = Map::from_iter([
                ("uid", Value::from(&*identity.uid)),
                ("resourceVersion", object.str_at(&["metadata", "resourceVersion"]).into()),
                (field, list),
            ]);
            let patch = Map::from_iter([("metadata", Value::Map(metadata))]);
            attempts += 1;
            match self.client.merge_patch(&mapping.path(identity), &patch.into()).await {
                Err(error) if error.reason() == reason::NOT_FOUND => return Ok(()),
                Err(error) if error.reason() == reason::CONFLICT && attempts < ATTEMPTS => {}
                patched => return Ok(patched.map(drop)?),
            }
        }
    }
}
