//! What a POST of a kind that is not stored makes (`rest.Creater` without a store behind it): a review,
//! a token, a binding, an eviction.

use std::fmt::Debug;
use std::sync::Arc;

use kevel_api::status::{Status, StatusError};
use kevel_api::value::Value;
use kevel_clock::Clock;

use crate::audit::AuditContext;
use crate::future::Pending;
use crate::request::Warnings;
use crate::resource::{Resource, Resources};
use crate::user::User;

/// Creates something that is not an object to be stored (`Creater`, and `NamedCreater` for subresources).
pub trait Creater: Debug + Send + Sync + 'static {
    /// Other groups and versions that a body may name the kind by. It has the same fields in them.
    fn accepted_versions(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Completes and checks an object before the plug-ins that validate see it. One that the reference does not touch
    /// stays as it is.
    fn prepare<'a>(
        &'a self,
        _request: &'a CreateRequest<'a>,
        object: Value,
    ) -> Pending<'a, Result<Value, StatusError>> {
        Box::pin(std::future::ready(Ok(object)))
    }

    /// What the client gets for its object, which has been decoded, defaulted, prepared and admitted.
    fn create<'a>(
        &'a self,
        request: &'a CreateRequest<'a>,
        object: Value,
    ) -> Pending<'a, Result<Created, StatusError>>;
}

/// A creation that a [`Creater`] answers: by whom, and of what.
#[derive(Debug)]
pub struct CreateRequest<'a> {
    /// The resource that the path names.
    pub resource: &'a Arc<Resource>,
    /// The rows of the server.
    pub resources: &'a Resources,
    /// The subresource; empty for the resource itself.
    pub subresource: &'a str,
    /// Empty where the kind has none.
    pub namespace: &'a str,
    /// The object whose subresource this is; empty otherwise.
    pub name: &'a str,
    /// The authenticated user.
    pub user: &'a Arc<User>,
    /// Whether nothing is to be written.
    pub dry_run: bool,
    /// Warnings for the client.
    pub warnings: &'a Warnings,
    /// The audit event, for annotations.
    pub audit: &'a AuditContext,
    /// Time of the server.
    pub clock: &'a Clock,
}

impl CreateRequest<'_> {
    /// Refuses an object that names another one than the path does. Where the path names none, the
    /// object's own name counts.
    pub fn check_name(&self, sent: &Value, kind: &str) -> Result<(), StatusError> {
        match self.name.is_empty() || self.name == sent.str_at(&["metadata", "name"]) {
            true => Ok(()),
            false => Err(StatusError::bad_request(format!(
                "name in URL does not match name in {kind} object"
            ))),
        }
    }
}

/// What a [`Creater`] made.
#[derive(Debug)]
pub enum Created {
    /// An object of the kind that was sent.
    Object(Value),
    /// That it was done.
    Status(Status),
}
