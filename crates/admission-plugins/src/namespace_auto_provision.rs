//! `NamespaceAutoProvision` admission plug-in: creates the namespace of a new object if it does not exist.

use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_controller_runtime::Client;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use super::{Context, Registration};
use kevel_controlplane::lister::Lister;

/// Registration of the `NamespaceAutoProvision` admission plug-in.
pub const REGISTRATION: Registration = Registration::off("NamespaceAutoProvision", |context| {
    Ok(Arc::new(NamespaceAutoProvision::new(context)?))
});

/// The `NamespaceAutoProvision` admission plug-in.
#[derive(Debug)]
pub struct NamespaceAutoProvision {
    namespaces: Lister,
    client: Client,
}

impl NamespaceAutoProvision {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        let namespaces = context.lister("", "namespaces")?;
        Ok(NamespaceAutoProvision { namespaces, client: context.client.clone() })
    }

    async fn provide(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), StatusError> {
        let name = attributes.namespace;
        if self.namespaces.snapshot(At::Any).await?.get(name).is_some() {
            return Ok(());
        }
        let metadata = Map::from_iter([("name", Value::from(name))]);
        let namespace = Map::from_iter([("metadata", Value::Map(metadata))]);
        match self.client.create("/api/v1/namespaces", &namespace.into()).await {
            Err(error) if error.reason() != reason::ALREADY_EXISTS => {
                Err(attributes.forbidden(object, error))
            }
            _ => Ok(()),
        }
    }
}

impl Plugin for NamespaceAutoProvision {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        if attributes.operation != Operation::Create
            || attributes.dry_run
            || attributes.namespace.is_empty()
            || attributes.concerns("", "namespaces")
        {
            return ready(Ok(()));
        }
        Box::pin(self.provide(attributes, object.map(|object| &*object)))
    }
}
