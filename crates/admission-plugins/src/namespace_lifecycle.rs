//! `NamespaceLifecycle` admission plug-in: refuses creations in a missing or terminating namespace, updates in a
//! missing one, and the deletion of the system namespaces.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use kevel_api::name::is_path_segment_name;
use kevel_api::quote::quote;
use kevel_api::status::{StatusCause, StatusError};
use kevel_api::value::Value;
use kevel_clock::monotonic_now;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin};
use kevel_registry::storage::Storage;
use kevel_store::cache::{At, Object};

use super::Registration;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Phase of a namespace that is being deleted.
const TERMINATING: &str = "Terminating";

/// Time for which a namespace whose deletion was requested here is read from the store, not from the cache (upstream:
/// `forceLiveLookupTTL`), and the number of namespaces that are remembered for it.
const DISTRUST: Duration = Duration::from_secs(30);
const MAX_DISTRUSTED: usize = 100;

/// Registration of the `NamespaceLifecycle` admission plug-in.
pub const REGISTRATION: Registration = Registration::on("NamespaceLifecycle", |context| {
    Ok(Arc::new(NamespaceLifecycle::new(context.storage("", "namespaces")?)))
});

/// The `NamespaceLifecycle` admission plug-in.
#[derive(Debug)]
pub struct NamespaceLifecycle {
    namespaces: Arc<Storage>,
    /// Namespaces whose deletion was requested at this server, with the time: the cache may not have the deletion yet.
    deleted: RwLock<Vec<(String, Instant)>>,
}

impl NamespaceLifecycle {
    /// Plug-in that reads namespaces from this storage.
    pub fn new(namespaces: Arc<Storage>) -> Self {
        NamespaceLifecycle { namespaces, deleted: RwLock::default() }
    }

    async fn check(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), StatusError> {
        let resource = attributes.resource;
        let namespaces = resource.kind.group.is_empty() && resource.plural == "namespaces";
        if namespaces {
            if attributes.operation == Operation::Delete {
                if IMMORTAL.contains(&attributes.name) {
                    return Err(attributes.forbidden(None, "this namespace may not be deleted"));
                }
                self.distrust(attributes.name);
            }
            return Ok(());
        }
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        // An access review must not disclose whether the namespace exists.
        let review = resource.kind.group == "authorization.k8s.io";
        if !writes || !resource.namespaced || review {
            return Ok(());
        }
        let name = attributes.namespace;
        let Some(namespace) = self.namespace(name).await? else { return Err(missing(name)) };
        // Creating a subresource (a token, a binding, an eviction) counts as new content too.
        let terminating = self.phase(&namespace) == TERMINATING;
        match terminating && attributes.operation == Operation::Create {
            true => Err(terminated(attributes, object)),
            false => Ok(()),
        }
    }

    /// Reads a namespace from the cache; from the store if it is missing there or its deletion was requested recently.
    async fn namespace(&self, name: &str) -> Result<Option<Arc<Object>>, StatusError> {
        match self.find(name, At::Any).await? {
            Some(found) if self.phase(&found) == TERMINATING || !self.is_distrusted(name) => {
                Ok(Some(found))
            }
            _ => self.find(name, At::Consistent).await,
        }
    }

    fn distrust(&self, name: &str) {
        let mut deleted = self.deleted.write().unwrap_or_else(PoisonError::into_inner);
        deleted.retain(|(known, since)| known != name && since.elapsed() < DISTRUST);
        if deleted.len() == MAX_DISTRUSTED {
            deleted.remove(0);
        }
        deleted.push((name.to_owned(), monotonic_now()));
    }

    fn is_distrusted(&self, name: &str) -> bool {
        let deleted = self.deleted.read().unwrap_or_else(PoisonError::into_inner);
        deleted.iter().any(|(known, since)| known == name && since.elapsed() < DISTRUST)
    }

    async fn find(&self, name: &str, at: At) -> Result<Option<Arc<Object>>, StatusError> {
        self.namespaces.cache.get(name, at).await.map_err(StatusError::internal)
    }

    /// Phase of a namespace, from the indexed field selectors: the object is not decoded.
    fn phase<'o>(&self, namespace: &'o Object) -> &'o str {
        let fields = &self.namespaces.fields;
        let position = fields.iter().position(|field| &*field.name == "status.phase");
        position.map_or("", |position| namespace.field(fields, position))
    }
}

/// Error of a write in a missing namespace.
fn missing(name: &str) -> StatusError {
    // The reference fails to build a request path with such a name.
    let problems = is_path_segment_name(name, false);
    if !problems.is_empty() {
        let (name, problems) = (quote(name), problems.join(" "));
        return StatusError::internal(format!("invalid resource name {name}: [{problems}]"));
    }
    StatusError::not_found(&kevel_api::gvk::GroupResource::new("", "namespaces"), name)
}

/// Error of a creation in a terminating namespace.
fn terminated(attributes: &Attributes<'_>, object: Option<&Value>) -> StatusError {
    let name = attributes.namespace;
    let error =
        format!("unable to create new content in namespace {name} because it is being terminated");
    let cause = StatusCause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {name} is being terminated").into(),
        field: "metadata.namespace".into(),
    };
    attributes.forbidden(object, error).with_cause(cause)
}

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        Box::pin(self.check(attributes, object.map(|object| &*object)))
    }
}
