//! Creations that are answered rather than stored.

use http::StatusCode;
use kevel_api::status::StatusError;

use super::Ask;
use super::table::{METADATA, metadata_only};
use crate::admission::Operation;
use crate::handler::Response;
use crate::metadata;
use crate::negotiate::{self, Shape};
use crate::resource::Part;
use crate::resource::{Answer, Answered, Answerer, Asked};
use crate::responses::status_response;

impl Ask<'_> {
    /// Who answers a creation here.
    pub(super) fn answerer(&self) -> Option<&Answerer> {
        match self.subresource {
            None => self.resource.answer.as_ref(),
            Some(sub) => match &sub.part {
                Part::Answer(answerer) => Some(answerer),
                _ => None,
            },
        }
    }

    pub(super) async fn answer(mut self, answer: &dyn Answer) -> Result<Response, StatusError> {
        // Nobody prints what is answered.
        if matches!(self.accepted.shape, Shape::Table(_) | Shape::MetadataList(_)) {
            return Err(StatusError::not_acceptable(&negotiate::BODY_TYPES));
        }
        let options = self.write_options("CreateOptions")?;
        let ty = self.ty();
        let kind = self.kind().clone();
        let mut object = self.decode_body(&kind, &ty, options.field_validation).await?;
        self.fill_in_namespace(&mut object)?;
        self.record_asked(&mut object, &options);
        let mut attributes = self.attributes(Operation::Create, options.dry_run);
        let name = metadata::text(&object, "name").to_owned();
        if attributes.name.is_empty() {
            attributes.name = &name;
        }
        let admission = &self.endpoints.admission;
        admission.admit(&attributes, Some(&mut object)).await?;
        admission.validate(&attributes, Some(&object)).await?;
        let asked = Asked {
            resource: self.resource,
            resources: self.resources,
            subresource: &self.request.info.subresource,
            namespace: self.namespace(),
            name: self.name(),
            user: &self.user,
            dry_run: options.dry_run,
            warnings: &self.request.warnings,
            audit: &self.request.audit,
        };
        match answer.answer(&asked, object).await? {
            Answered::Object(value) => {
                let (value, ty) = match &self.accepted.shape {
                    Shape::Metadata(version) => (metadata_only(value, version), METADATA.clone()),
                    _ => (value, ty),
                };
                self.encoded(StatusCode::CREATED, &value, Some(&ty))
            }
            Answered::Status(mut status) => {
                if status.code == 0 {
                    status.code = StatusCode::CREATED.as_u16();
                }
                Ok(status_response(StatusCode::CREATED, &status, &self.accepted))
            }
        }
    }
}
