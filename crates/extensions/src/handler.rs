//! The last server of the chain: custom objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::admission::{Attributes, Operation, Plugin, ready};
use kevel_server::delegate::not_found;
use kevel_server::endpoints::Endpoints;
use kevel_server::future::Pending;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::Request;
use kevel_server::resource::Resources;
use kevel_server::responses::failure_to;
use kevel_server::verb::Verb;

/// Serves custom objects, whose rows come and go with their definitions.
#[derive(Debug)]
pub struct CustomResources {
    /// What is defined now.
    pub resources: Arc<Resources>,
    /// The verbs, as all servers of the chain have them.
    pub endpoints: Arc<Endpoints>,
}

impl Handler for CustomResources {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            let info = &request.info;
            let row = info.served_by().and_then(|(group, version, resource)| {
                self.resources.current().get(group, version, resource).cloned()
            });
            let Some(row) = row else { return not_found(&request) };
            let across = matches!(info.verb, Verb::List | Verb::Watch);
            let fits = match (row.namespaced, info.namespace.is_empty()) {
                (true, true) => across,
                (false, false) => false,
                _ => true,
            };
            if !fits {
                return not_found(&request);
            }
            if let Some(warning) = row.custom.as_ref().and_then(|custom| custom.warning.clone()) {
                request.warnings.add(warning);
            }
            if !info.subresource.is_empty() && !row.subresources.contains_key(&info.subresource) {
                let error = StatusError::not_found(&row.group_resource(), &info.name);
                return failure_to(&request, error);
            }
            self.endpoints.serve(&self.resources, &row, request).await
        })
    }
}

/// Refuses new objects of kinds whose definition is being deleted.
#[derive(Debug, Default)]
pub struct Terminating(ArcSwap<BTreeSet<String>>);

impl Terminating {
    /// Notes whether the definition of this name is being deleted.
    pub fn note(&self, definition: &str, is_terminating: bool) {
        if self.0.load().contains(definition) == is_terminating {
            return;
        }
        self.0.rcu(|known| {
            let mut names = BTreeSet::clone(known);
            match is_terminating {
                true => names.insert(definition.to_owned()),
                false => names.remove(definition),
            };
            names
        });
    }

    fn check(&self, attributes: &Attributes<'_>) -> Result<(), StatusError> {
        let resource = attributes.resource;
        if attributes.operation != Operation::Create || !resource.is_custom() {
            return Ok(());
        }
        let group_resource = resource.group_resource();
        if !self.0.load().contains(&group_resource.to_string()) {
            return Ok(());
        }
        let why = "create not allowed while custom resource definition is terminating";
        Err(StatusError::forbidden(&group_resource, attributes.name, why))
    }
}

impl Plugin for Terminating {
    fn name(&self) -> &'static str {
        "CustomResourceDefinitionTerminating"
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        ready(self.check(attributes))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        ready(self.check(attributes))
    }
}
