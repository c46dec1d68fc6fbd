//! Create requests for objects that are not stored, handled by the [`Creater`] of a resource or subresource.

use std::sync::Arc;

use http::StatusCode;
use kevel_api::status::StatusError;

use super::ResourceRequest;
use super::options::OptionsKind;
use super::table::{METADATA, metadata_only};
use crate::handler::Response;
use crate::negotiate::Shape;
use crate::responses::status_response;
use kevel_registry::resource::{Created, Creater, SubresourceKind};

impl ResourceRequest<'_> {
    /// The `Creater` of the requested resource or subresource, if its objects are not stored.
    pub(super) fn creater(&self) -> Option<&Arc<dyn Creater>> {
        match self.subresource {
            None => self.resource.creater.as_ref(),
            Some(sub) => match &sub.role {
                SubresourceKind::NamedCreater(creater) => Some(creater),
                _ => None,
            },
        }
    }

    pub(super) async fn create_unstored(
        mut self,
        creater: &dyn Creater,
    ) -> Result<Response, StatusError> {
        let options = self.write_options(OptionsKind::Create)?;
        let ty = self.ty();
        let kind = self.kind().clone();
        let others = creater.accepted_versions();
        let object = self.decode_body_of(&kind, others, &ty, options.field_validation).await?;
        let (scope, write) = (self.scope(), &options.write);
        match scope.create_unstored(creater, self.resources, object, write).await? {
            Created::Object(value) => {
                let (value, ty) = match &self.accepted.shape {
                    Shape::Metadata(version) => {
                        (metadata_only(value, version, self.resource), METADATA.clone())
                    }
                    Shape::MetadataList(_) => {
                        return Err(self.misfit("PartialObjectMetadataList", "not a list", ""));
                    }
                    _ => (value, ty),
                };
                self.encoded(StatusCode::CREATED, value, &ty)
            }
            Created::Status(mut status) => {
                if status.code == 0 {
                    status.code = StatusCode::CREATED.as_u16();
                }
                Ok(status_response(StatusCode::CREATED, &status, &self.accepted))
            }
        }
    }
}
