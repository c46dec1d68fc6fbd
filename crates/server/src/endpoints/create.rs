//! Create requests.

use kevel_api::status::StatusError;
use kevel_registry::failure::unserved;

use super::StoredRequest;
use super::options::OptionsKind;
use crate::handler::Response;

impl StoredRequest<'_> {
    pub(super) async fn create(mut self) -> Result<Response, StatusError> {
        if self.subresource.is_some() {
            return Err(unserved());
        }
        let options = self.write_options(OptionsKind::Create)?;
        let kind = self.resource.kind.clone();
        let ty = self.resource.ty.clone();
        let object = self.decode_body(&kind, &ty, options.field_validation).await?;
        let written = self.store().create(object, &options.write).await?;
        self.written(written).await
    }
}
