//! `DenyServiceExternalIPs` admission plug-in: refuses new `externalIPs` of services.

use std::collections::HashSet;
use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::Registration;

/// Registration of the `DenyServiceExternalIPs` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::off("DenyServiceExternalIPs", |_| Ok(Arc::new(DenyServiceExternalIps)));

/// The `DenyServiceExternalIPs` admission plug-in.
#[derive(Clone, Copy, Debug)]
pub struct DenyServiceExternalIps;

impl Plugin for DenyServiceExternalIps {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let service = object.filter(|_| writes && attributes.is("", "services"));
        let addresses = |service: &'a Value| service.list_at(&["spec", "externalIPs"]);
        let old = attributes.old.map(addresses).unwrap_or_default();
        let old: HashSet<Option<&str>> = old.iter().map(Value::as_str).collect();
        let new = service.map(addresses).unwrap_or_default();
        ready(match new.iter().all(|address| old.contains(&address.as_str())) {
            true => Ok(()),
            false => {
                let error = "Use of external IPs is denied by admission control";
                Err(attributes.forbidden(object, error))
            }
        })
    }
}
