//! `DefaultStorageClass` admission plug-in: sets the class of PersistentVolumeClaims that name none.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::default_class::{ClassDefaults, default_class};
use super::{Context, Registration};
use kevel_controlplane::lister::Lister;

/// Annotations that mark a StorageClass as the default.
const DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// Deprecated annotation of claims that names their class.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Registration of the `DefaultStorageClass` admission plug-in.
pub const REGISTRATION: Registration = Registration::on("DefaultStorageClass", |context| {
    Ok(Arc::new(DefaultStorageClass::new(context)?))
});

/// The `DefaultStorageClass` admission plug-in.
#[derive(Debug)]
pub struct DefaultStorageClass {
    classes: Lister<ClassDefaults>,
}

impl DefaultStorageClass {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        Ok(DefaultStorageClass { classes: context.lister("storage.k8s.io", "storageclasses")? })
    }
}

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let new = attributes.operation == Operation::Create
            && attributes.is("", "persistentvolumeclaims");
        let Some(claim) = object.filter(|_| new) else { return ready(Ok(())) };
        if claim.at(&["spec", "storageClassName"]).is_some()
            || claim.at(&["metadata", "annotations", CLASS_ANNOTATION]).is_some()
        {
            return ready(Ok(()));
        }
        Box::pin(async move {
            if let Some(class) = default_class(&self.classes, &DEFAULT).await? {
                let name = class.name.as_str();
                claim.make_map(&["spec"]).insert("storageClassName", name.into());
            }
            Ok(())
        })
    }
}
