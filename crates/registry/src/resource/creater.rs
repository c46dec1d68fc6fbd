//! Creates that store no object (upstream: `rest.Creater` without a store): reviews, tokens, bindings, evictions.

use std::fmt::Debug;
use std::sync::Arc;

use kevel_api::status::{Status, StatusError};
use kevel_api::value::Value;
use kevel_clock::Clock;

use crate::audit::AuditEvent;
use crate::resource::{Resource, Resources};
use crate::user::User;
use crate::warnings::Warnings;
use kevel_component::future::Pending;

/// Handles creates that store no object (upstream: `rest.Creater`, and `rest.NamedCreater` for subresources).
pub trait Creater: Debug + Send + Sync + 'static {
    /// Other groups and versions that a body may use. The kind has the same fields in them.
    fn accepted_versions(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Completes and validates an object before validating admission. The default leaves the object unchanged.
    fn prepare<'a>(
        &'a self,
        _request: &'a CreateRequest<'a>,
        object: Value,
    ) -> Pending<'a, Result<Value, StatusError>> {
        Box::pin(std::future::ready(Ok(object)))
    }

    /// Handles the object, which has been decoded, defaulted, prepared and admitted.
    fn create<'a>(
        &'a self,
        request: &'a CreateRequest<'a>,
        object: Value,
    ) -> Pending<'a, Result<Created, StatusError>>;
}

/// A create request for a [`Creater`].
#[derive(Debug)]
pub struct CreateRequest<'a> {
    /// Resource of the path.
    pub resource: &'a Arc<Resource>,
    /// All resources of the server.
    pub resources: &'a Resources,
    /// Subresource; empty for the resource itself.
    pub subresource: &'a str,
    /// Namespace; empty for a cluster-scoped resource.
    pub namespace: &'a str,
    /// Name of the object whose subresource this is; otherwise empty.
    pub name: &'a str,
    /// The authenticated user.
    pub user: &'a Arc<User>,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// Warnings for the client.
    pub warnings: &'a Warnings,
    /// The audit event, for annotations.
    pub audit: &'a dyn AuditEvent,
    /// Clock of the server.
    pub clock: &'a Clock,
}

impl CreateRequest<'_> {
    /// Refuses an object with another name than the path's. Without a name in the path, any is accepted.
    pub fn check_name(&self, sent: &Value, kind: &str) -> Result<(), StatusError> {
        match self.name.is_empty() || self.name == sent.str_at(&["metadata", "name"]) {
            true => Ok(()),
            false => Err(StatusError::bad_request(format!(
                "name in URL does not match name in {kind} object"
            ))),
        }
    }
}

/// Result of a [`Creater`].
#[derive(Debug)]
pub enum Created {
    /// An object of the kind that was sent.
    Object(Value),
    /// A `Status` of success.
    Status(Status),
}
