//! `StorageObjectInUseProtection` admission plug-in: adds finalizers that keep volumes and claims while they are in
//! use.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_features::Feature;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::Registration;

/// Protected resources, with their finalizers.
const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

/// Registration of the `StorageObjectInUseProtection` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::on("StorageObjectInUseProtection", |context| {
        let classes = (context.feature)(Feature::VolumeAttributesClass);
        Ok(Arc::new(StorageObjectInUseProtection { classes }))
    });

/// The `StorageObjectInUseProtection` admission plug-in.
#[derive(Clone, Copy, Debug)]
pub struct StorageObjectInUseProtection {
    /// `VolumeAttributesClass`: its classes are protected, too.
    classes: bool,
}

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let new = attributes.operation == Operation::Create;
        let is = |(group, plural, _): &&(&str, &str, &str)| {
            new && attributes.is(group, plural) && (group.is_empty() || self.classes)
        };
        if let (Some((_, _, finalizer)), Some(object)) = (PROTECTED.iter().find(is), object) {
            add_finalizer(object, finalizer);
        }
        ready(Ok(()))
    }
}

/// Adds a finalizer if the object lacks it.
pub(super) fn add_finalizer(object: &mut Value, finalizer: &str) {
    let finalizers = object.make_list(&["metadata"], "finalizers");
    if !finalizers.iter().any(|there| there.as_str() == Some(finalizer)) {
        finalizers.push(finalizer.into());
    }
}
