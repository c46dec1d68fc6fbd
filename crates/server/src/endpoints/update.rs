//! Update requests.

use kevel_api::status::StatusError;
use kevel_registry::failure::unserved;
use kevel_registry::resource::SubresourceKind;

use super::StoredRequest;
use super::options::OptionsKind;
use crate::handler::Response;

impl StoredRequest<'_> {
    pub(super) async fn update(mut self) -> Result<Response, StatusError> {
        let options = self.write_options(OptionsKind::Update)?;
        self.check_writable()?;
        let kind = self.kind().clone();
        let ty = self.ty();
        let object = self.decode_body(&kind, &ty, options.field_validation).await?;
        let written = self.store().update(object, &options.write).await?;
        self.written(written).await
    }

    /// Refuses a write of a subresource that is no object.
    pub(super) fn check_writable(&self) -> Result<(), StatusError> {
        match self.subresource.map(|sub| &sub.role) {
            Some(
                SubresourceKind::NamedCreater(_)
                | SubresourceKind::Connecter
                | SubresourceKind::NotServed,
            ) => Err(unserved()),
            _ => Ok(()),
        }
    }
}
