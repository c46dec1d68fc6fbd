//! `NamespaceExists` admission plug-in: refuses writes in a namespace that does not exist.

use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use super::{Context, Registration};
use kevel_controlplane::lister::Lister;

/// Registration of the `NamespaceExists` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::off("NamespaceExists", |context| Ok(Arc::new(NamespaceExists::new(context)?)));

/// The `NamespaceExists` admission plug-in.
#[derive(Debug)]
pub struct NamespaceExists {
    namespaces: Lister,
}

impl NamespaceExists {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        Ok(NamespaceExists { namespaces: context.lister("", "namespaces")? })
    }
}

impl Plugin for NamespaceExists {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let name = attributes.namespace;
        // Namespaces and their subresources are not in a namespace.
        if name.is_empty()
            || attributes.operation == Operation::Connect
            || attributes.concerns("", "namespaces")
        {
            return ready(Ok(()));
        }
        Box::pin(async move {
            for at in [At::Any, At::Consistent] {
                if self.namespaces.snapshot(at).await?.get(name).is_some() {
                    return Ok(());
                }
            }
            Err(StatusError::not_found(&GroupResource::from_static("", "namespaces"), name))
        })
    }
}
