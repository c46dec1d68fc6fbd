//! Nothing is created in a namespace that is not there or is going away, and the namespaces that the
//! system needs stay.

use std::sync::Arc;

use kevel_api::name::is_path_segment_name;
use kevel_api::quote::quote;
use kevel_api::status::{StatusCause, StatusError};
use kevel_api::value::Value;
use kevel_server::admission::{Attributes, Operation, Plugin};
use kevel_server::future::Pending;
use kevel_server::storage::Storage;
use kevel_store::cache::{At, Object};

use super::Registration;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// `NamespaceLifecycle`, as the command line knows it.
pub const REGISTRATION: Registration = Registration::on("NamespaceLifecycle", |context| {
    Ok(Arc::new(NamespaceLifecycle::new(context.storage("", "namespaces")?)))
});

/// The admission plug-in of that name.
#[derive(Debug)]
pub struct NamespaceLifecycle {
    namespaces: Arc<Storage>,
}

impl NamespaceLifecycle {
    /// A plug-in that knows namespaces from here.
    pub fn new(namespaces: Arc<Storage>) -> Self {
        NamespaceLifecycle { namespaces }
    }

    async fn check(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), StatusError> {
        let resource = attributes.resource;
        let namespaces = resource.kind.group.is_empty() && resource.plural == "namespaces";
        if namespaces {
            if attributes.operation == Operation::Delete && IMMORTAL.contains(&attributes.name) {
                return Err(attributes.forbidden(None, "this namespace may not be deleted"));
            }
            return Ok(());
        }
        let creates = attributes.operation == Operation::Create && resource.namespaced;
        // Whoever asks whether something would be allowed need not have the namespace.
        let review = resource.kind.group == "authorization.k8s.io";
        if !creates || review || !attributes.subresource.is_empty() {
            return Ok(());
        }
        let name = attributes.namespace;
        let found = match self.find(name, At::Any).await? {
            None => self.find(name, At::Consistent).await?,
            found => found,
        };
        let Some(namespace) = found else {
            // Such a name cannot even be asked for.
            let problems = is_path_segment_name(name, false);
            if !problems.is_empty() {
                let (name, problems) = (quote(name), problems.join(" "));
                let why = format!("invalid resource name {name}: [{problems}]");
                return Err(StatusError::internal(why));
            }
            let namespaces = kevel_api::gvk::GroupResource::new("", "namespaces");
            return Err(StatusError::not_found(&namespaces, name));
        };
        if self.phase(&namespace) == "Terminating" {
            let error = format!(
                "unable to create new content in namespace {name} because it is being terminated"
            );
            let cause = StatusCause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {name} is being terminated").into(),
                field: "metadata.namespace".into(),
            };
            return Err(attributes.forbidden(object, error).with_cause(cause));
        }
        Ok(())
    }

    async fn find(&self, name: &str, at: At) -> Result<Option<Arc<Object>>, StatusError> {
        self.namespaces.cache.get(name, at).await.map_err(StatusError::internal)
    }

    /// Clients select by it, so it is known without reading the object.
    fn phase<'o>(&self, namespace: &'o Object) -> &'o str {
        let fields = &self.namespaces.fields;
        let position = fields.iter().position(|field| &*field.name == "status.phase");
        position.map_or("", |position| namespace.field(fields, position))
    }
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
