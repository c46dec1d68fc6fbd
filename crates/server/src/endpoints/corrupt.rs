//! Deletion of an object that cannot be read (`ignoreStoreReadErrorWithClusterBreakingPotential`).

use http::StatusCode;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::GroupKind;
use kevel_api::quote::quote;
use kevel_api::status::{SUCCESS, Status, StatusDetails, StatusError};
use kevel_registry::admission::Operation;
use kevel_registry::audit::AuditEvent as _;
use kevel_registry::deletion::IGNORE_READ_ERROR;

use super::StoredRequest;
use crate::authorization::{self, Decision};
use crate::handler::Response;
use crate::responses::status_response;

/// Verb that the deletion of an unreadable object needs, beside `delete`.
const VERB: &str = "unsafe-delete-ignore-read-errors";
/// Audit annotation of a request for such a deletion.
const ANNOTATION: &str = "apiserver.k8s.io/unsafe-delete-ignore-read-error";

impl StoredRequest<'_> {
    /// Deletes the object though it cannot be read. A readable object is refused.
    pub(super) async fn delete_corrupt(&self) -> Result<Response, StatusError> {
        self.request.audit.annotate(ANNOTATION, "");
        self.authorize_unsafe_deletion().await?;
        self.store().delete_unreadable().await?;
        Ok(self.deleted_corrupt())
    }

    async fn authorize_unsafe_deletion(&self) -> Result<(), StatusError> {
        let Some(authorizer) = &self.endpoints.authorizer else {
            let why = "no authorizer provided, unable to authorize unsafe delete";
            return Err(StatusError::internal(why));
        };
        let mut attributes = authorization::Attributes::of(&self.request.info, &self.user);
        attributes.verb = VERB;
        let opinion = authorizer.authorize(&attributes).await;
        let why = match (opinion.decision, opinion.error) {
            (_, Some(error)) => {
                format!("error while checking permission for {}, {error}", quote(VERB))
            }
            (Decision::Allow, None) => return Ok(()),
            (_, None) => {
                format!("not permitted to do {}, reason: {}", quote(VERB), opinion.reason)
            }
        };
        Err(self.scope().attributes(Operation::Delete, false).forbidden(None, why))
    }

    fn deleted_corrupt(&self) -> Response {
        let status = Status {
            status: SUCCESS.into(),
            code: StatusCode::OK.as_u16(),
            details: Some(Box::new(StatusDetails {
                name: self.name().to_owned().into(),
                kind: self.resource.kind.kind.to_string().into(),
                ..StatusDetails::default()
            })),
            ..Status::default()
        };
        status_response(StatusCode::OK, &status, &self.accepted)
    }
}

/// Status for a deletion of many objects, which names none that may be deleted unread.
pub(super) fn refuse_collection() -> StatusError {
    let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
    let error = FieldError::invalid(&Path::new(IGNORE_READ_ERROR), true, why);
    let kind = GroupKind::new("meta.k8s.io", "DeleteOptions");
    StatusError::invalid(&kind, "", vec![error])
}
