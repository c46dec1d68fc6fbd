//! `PersistentVolumeClaimResize` admission plug-in: a claim may grow only if its StorageClass allows expansion.

use std::sync::Arc;

use kevel_api::quantity::Quantity;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_store::cache::At;

use super::default_storage_class::CLASS_ANNOTATION;
use super::{Context, Registration};
use kevel_controlplane::lister::{Facts, Lister};

/// Registration of the `PersistentVolumeClaimResize` admission plug-in.
pub const REGISTRATION: Registration = Registration::on("PersistentVolumeClaimResize", |context| {
    Ok(Arc::new(PersistentVolumeClaimResize::new(context)?))
});

/// The `PersistentVolumeClaimResize` admission plug-in.
#[derive(Debug)]
pub struct PersistentVolumeClaimResize {
    classes: Lister<VolumeExpansion>,
}

/// `allowVolumeExpansion` of a StorageClass.
#[derive(Debug)]
struct VolumeExpansion(bool);

impl Facts for VolumeExpansion {
    fn read(class: &Value) -> Self {
        VolumeExpansion(class.at(&["allowVolumeExpansion"]) == Some(&Value::Bool(true)))
    }
}

impl PersistentVolumeClaimResize {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        let classes = context.lister("storage.k8s.io", "storageclasses")?;
        Ok(PersistentVolumeClaimResize { classes })
    }

    async fn check(
        &self,
        attributes: &Attributes<'_>,
        claim: &Value,
        old: &Value,
    ) -> Result<(), StatusError> {
        if old.str_at(&["status", "phase"]) != "Bound" {
            let error = "Only bound persistent volume claims can be expanded";
            return Err(attributes.forbidden(Some(claim), error));
        }
        let name = class(claim);
        let expands = name == class(old) && !name.is_empty() && {
            let class = self.classes.get("", name, At::Any).await?;
            class.is_some_and(|class| class.0)
        };
        if expands {
            return Ok(());
        }
        let error = "only dynamically provisioned pvc can be resized and the storageclass that \
                     provisions the pvc must support resize";
        Err(attributes.forbidden(Some(claim), error))
    }
}

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let update = attributes.operation == Operation::Update
            && attributes.is("", "persistentvolumeclaims");
        match (object, attributes.old) {
            (Some(claim), Some(old)) if update && size(claim) > size(old) => {
                Box::pin(self.check(attributes, claim, old))
            }
            _ => ready(Ok(())),
        }
    }
}

fn size(claim: &Value) -> Quantity {
    claim.str_at(&["spec", "resources", "requests", "storage"]).parse().unwrap_or_default()
}

/// Name of a claim's StorageClass, from the deprecated annotation or the field; empty if there is none.
pub(super) fn class(claim: &Value) -> &str {
    match claim.at(&["metadata", "annotations", CLASS_ANNOTATION]).and_then(Value::as_str) {
        Some(class) => class,
        None => claim.str_at(&["spec", "storageClassName"]),
    }
}
