//! Creations that are answered rather than stored.

use http::StatusCode;
use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::respond::status_response;
use super::table::{metadata_only, metadata_type};
use super::{Ask, meta};
use crate::admission::{Attributes, Operation};
use crate::answer::{Answer, Answered, Answerer, Asked};
use crate::handler::Response;
use crate::negotiate::{self, Shape};
use crate::resource::Part;

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
        let attributes = Attributes {
            resource: self.resource,
            subresource: &self.request.info.subresource,
            operation: Operation::Create,
            verb: self.request.info.verb,
            namespace: self.namespace(),
            name: self.name(),
            user: &self.user,
            dry_run: options.dry_run,
            warnings: &self.request.warnings,
            audit: &self.request.audit,
            old: None,
        };
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
                    Shape::Metadata(version) => (metadata_only(value, version), metadata_type()),
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

    /// An object's name must be the one in the path.
    pub(super) fn check_name(&self, object: &Value) -> Result<(), StatusError> {
        let (said, name) = (meta::text(object, "name"), self.name());
        if said != name {
            let message = format!(
                "the name of the object ({said}) does not match the name on the URL ({name})"
            );
            return Err(StatusError::bad_request(message));
        }
        Ok(())
    }

    /// The namespace of the path goes where the object says none; another one is refused.
    pub(super) fn fill_in_namespace(&self, object: &mut Value) -> Result<(), StatusError> {
        let namespace = self.namespace();
        let said = meta::text(object, "namespace");
        if !self.resource.namespaced {
            return Ok(());
        }
        if said.is_empty() {
            meta::set(object, "namespace", Some(namespace.into()));
        } else if said != namespace {
            return Err(StatusError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }
}
