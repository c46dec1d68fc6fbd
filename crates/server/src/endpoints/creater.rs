//! Create requests for objects that are not stored, handled by the [`Creater`] of a resource or subresource.

use std::sync::Arc;

use http::StatusCode;
use kevel_api::status::StatusError;

use super::ResourceRequest;
use super::create::wipe_system_fields;
use super::options::OptionsKind;
use super::owner_references::Sent;
use super::table::{METADATA, metadata_only};
use crate::admission::Operation;
use crate::handler::Response;
use crate::metadata;
use crate::negotiate::Shape;
use crate::resource::{CreateRequest, Created, Creater, SubresourceKind};
use crate::responses::status_response;

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
        let mut object = self.decode_body_of(&kind, others, &ty, options.field_validation).await?;
        self.fill_in_namespace(&mut object)?;
        // The body of a subresource may name the object by its UID
        // (`PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate`).
        if self.subresource.is_none() {
            wipe_system_fields(&mut object);
        }
        self.dedup_owner_references(&mut object, Sent::ByClient);
        self.record_unstored(&mut object, &options);
        let mut attributes = self.attributes(Operation::Create, options.dry_run);
        let name = metadata::text(&object, "name").to_owned();
        if attributes.name.is_empty() {
            attributes.name = &name;
        }
        let admission = &self.endpoints.admission;
        admission.admit(&attributes, Some(&mut object)).await?;
        self.dedup_owner_references(&mut object, Sent::AfterAdmission);
        let request = CreateRequest {
            resource: self.resource,
            resources: self.resources,
            subresource: &self.request.info.subresource,
            namespace: self.namespace(),
            name: self.name(),
            user: &self.user,
            dry_run: options.dry_run,
            warnings: &self.request.warnings,
            audit: &self.request.audit,
            clock: self.request.clock(),
        };
        let object = creater.prepare(&request, object).await?;
        admission.validate(&attributes, Some(&object)).await?;
        match creater.create(&request, object).await? {
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
