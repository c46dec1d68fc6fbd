//! Calls of the admission chain for updates, which see the Scale where the request is for the scale subresource.

use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::Store;
use crate::admission::Attributes;

impl Store<'_> {
    /// Runs the mutating admission plug-ins on the object, or on its Scale where the request is for the scale
    /// subresource.
    pub(crate) async fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), StatusError> {
        let admission = self.admission;
        let (Some(scale), Some(old)) = (self.scale(), attributes.old) else {
            return admission.admit(attributes, Some(object)).await;
        };
        let old = self.view(old.clone())?;
        let mut view = self.view(object.clone())?;
        admission.admit(&Attributes { old: Some(&old), ..*attributes }, Some(&mut view)).await?;
        scale.set(object, &view);
        Ok(())
    }

    /// Runs the validating admission plug-ins on the object to be stored.
    pub(crate) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), StatusError> {
        let admission = self.admission;
        let (Some(_), Some(old)) = (self.scale(), attributes.old) else {
            return admission.validate(attributes, Some(object)).await;
        };
        let (old, view) = (self.view(old.clone())?, self.view(object.clone())?);
        admission.validate(&Attributes { old: Some(&old), ..*attributes }, Some(&view)).await
    }
}
