//! Refusal of new custom objects while their definition is being deleted.

use std::collections::BTreeSet;

use arc_swap::ArcSwap;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_registry::type_ref::TypeRef;

/// Admission plug-in that refuses new objects of terminating definitions (upstream: part of crdHandler).
#[derive(Debug, Default)]
pub struct Terminating(ArcSwap<BTreeSet<String>>);

impl Terminating {
    /// Records whether a definition is being deleted.
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
        let custom = matches!(resource.ty, TypeRef::Custom(..));
        if attributes.operation != Operation::Create || !custom {
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
