//! Reads and writes of the scale subresource, which are those of the object.

use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::{GroupKind, GroupResource};
use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::Store;
use crate::metadata;
use crate::resource::SubresourceKind;
use crate::scale::Scale;

impl Store<'_> {
    /// Scale of the requested subresource, if it is `scale`.
    pub fn scale(&self) -> Option<&Scale> {
        match self.subresource.map(|sub| &sub.role) {
            Some(SubresourceKind::Scale(scale)) => Some(scale),
            _ => None,
        }
    }

    /// The object as the client sees it: itself, or its Scale.
    pub fn view(&self, object: Value) -> Result<Value, StatusError> {
        match (self.scale(), self.subresource) {
            (Some(scale), Some(sub)) => {
                scale.of(&object, &sub.kind).map_err(StatusError::bad_request)
            }
            _ => Ok(object),
        }
    }

    /// The object that the client wants written; a Scale's replicas are put into the stored object.
    pub fn unview(&self, wanted: Value, object: &Value) -> Result<Value, StatusError> {
        let Some(scale) = self.scale() else { return Ok(wanted) };
        let count = wanted.at(&["spec", "replicas"]).and_then(Value::as_int).unwrap_or(0);
        if count < 0 && scale.checked {
            let (root, why) = (Path::new("spec"), "must be greater than or equal to 0");
            let error = FieldError::invalid(&root.child("replicas"), count, why);
            let kind = GroupKind::new("autoscaling", "Scale");
            return Err(StatusError::invalid(&kind, self.name(), error));
        }
        self.check_scale_uid(scale, &wanted, object)?;
        let mut object = object.clone();
        scale.set(&mut object, &wanted);
        let version = metadata::text(&wanted, "resourceVersion");
        if !version.is_empty() {
            metadata::set(&mut object, "resourceVersion", Some(version.into()));
        }
        Ok(object)
    }

    /// Checks that a UID in a Scale is that of its object.
    pub fn check_scale_uid(
        &self,
        scale: &Scale,
        wanted: &Value,
        object: &Value,
    ) -> Result<(), StatusError> {
        let (asked, there) = (metadata::text(wanted, "uid"), metadata::text(object, "uid"));
        if asked.is_empty() || asked == there || !scale.checked {
            return Ok(());
        }
        let plural = format!("{}/scale", self.resource.plural);
        let resource = GroupResource::new(self.resource.kind.group.clone(), plural.as_str());
        let why = format!(
            "Precondition failed: UID in precondition: {asked}, UID in object meta: {there}"
        );
        Err(StatusError::conflict(&resource, self.name(), why))
    }
}
