//! `AlwaysPullImages` admission plug-in: sets `imagePullPolicy` to Always, so that a pod cannot use an image on the
//! node that it may not pull itself.

use std::collections::HashSet;
use std::sync::Arc;

use kevel_api::field_error::{FieldError, FieldErrors, Path, aggregate};
use kevel_api::references::pod_containers;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::Registration;

const ALWAYS: &str = "Always";
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Registration of the `AlwaysPullImages` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::off("AlwaysPullImages", |_| Ok(Arc::new(AlwaysPullImages)));

/// The `AlwaysPullImages` admission plug-in.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysPullImages;

impl Plugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        if let Some(pod) = object.filter(|pod| concerns(attributes, pod)) {
            for kind in CONTAINERS {
                let containers = pod.at_mut(&["spec", kind]).and_then(Value::as_list_mut);
                for container in containers.into_iter().flatten() {
                    container.make_map(&[]).insert("imagePullPolicy", ALWAYS.into());
                }
            }
            let volumes = pod.at_mut(&["spec", "volumes"]).and_then(Value::as_list_mut);
            for volume in volumes.into_iter().flatten() {
                if let Some(image) = volume.at_mut(&["image"]) {
                    image.make_map(&[]).insert("pullPolicy", ALWAYS.into());
                }
            }
        }
        ready(Ok(()))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let Some(pod) = object.filter(|pod| concerns(attributes, pod)) else {
            return ready(Ok(()));
        };
        let errors = others(pod);
        let errors: Vec<_> = errors.iter().map(|e| attributes.forbidden(object, e)).collect();
        ready(match (aggregate(&errors), errors.into_iter().next()) {
            (Some(all), Some(first)) if first.to_string() != all => {
                Err(StatusError::unknown(500, all))
            }
            (_, Some(first)) => Err(first),
            (_, None) => Ok(()),
        })
    }
}

/// Errors for containers and image volumes whose pull policy is not Always.
fn others(pod: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = Path::new("spec");
    let mut check = |path: &Path<'_>, policy: &str| {
        if policy != ALWAYS {
            errors.add(|| FieldError::not_supported(path, policy, [ALWAYS]));
        }
    };
    for kind in CONTAINERS {
        let list = spec.child(kind);
        for (index, container) in pod.list_at(&["spec", kind]).iter().enumerate() {
            let item = list.index(index);
            check(&item.child("imagePullPolicy"), container.str_at(&["imagePullPolicy"]));
        }
    }
    let list = spec.child("volumes");
    for (index, volume) in pod.list_at(&["spec", "volumes"]).iter().enumerate() {
        if let Some(image) = volume.at(&["image"]) {
            let item = list.index(index);
            let image_path = item.child("image");
            check(&image_path.child("pullPolicy"), image.str_at(&["pullPolicy"]));
        }
    }
    errors
}

/// True if the write may bring new images: a created pod, or an update with an image that the old pod lacks.
fn concerns(attributes: &Attributes<'_>, pod: &Value) -> bool {
    fn image(container: &Value) -> &str {
        container.str_at(&["image"])
    }
    attributes.is("", "pods")
        && match attributes.operation {
            Operation::Create => true,
            Operation::Update => {
                let old = attributes.old.into_iter().flat_map(pod_containers);
                let old: HashSet<&str> = old.map(image).collect();
                pod_containers(pod).any(|container| !old.contains(image(container)))
            }
            Operation::Delete | Operation::Connect => false,
        }
}
