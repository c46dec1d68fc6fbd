//! What is asked by creating an object that is not stored: a review, a token, an eviction.

use std::sync::Arc;

use kevel_api::status::{Status, StatusError};
use kevel_api::value::Value;

use crate::audit::AuditContext;
use crate::future::Pending;
use crate::request::Warnings;
use crate::resource::{Resource, Resources};
use crate::user::User;

/// Answers a creation.
pub trait Answer: Send + Sync + 'static {
    /// What the client gets for its object, which has been decoded, defaulted and admitted.
    fn answer<'a>(
        &'a self,
        asked: &'a Asked<'a>,
        object: Value,
    ) -> Pending<'a, Result<Answered, StatusError>>;
}

/// Where and by whom something is asked.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The row that is asked.
    pub resource: &'a Arc<Resource>,
    /// The rows of the server that is asked.
    pub resources: &'a Resources,
    /// The subresource; empty for the resource itself.
    pub subresource: &'a str,
    /// Empty where the kind has none.
    pub namespace: &'a str,
    /// The object whose subresource this is; empty otherwise.
    pub name: &'a str,
    /// Who asks.
    pub user: &'a Arc<User>,
    /// Whether nothing is to be written.
    pub dry_run: bool,
    /// Where is put what the client should know.
    pub warnings: &'a Warnings,
    /// Where what is decided is noted for the auditors.
    pub audit: &'a AuditContext,
}

impl Asked<'_> {
    /// Refuses what is sent to an object and names another one. Of what is sent to no object in
    /// particular, the name is its own.
    pub fn check_name(&self, sent: &Value, kind: &str) -> Result<(), StatusError> {
        match self.name.is_empty() || self.name == sent.str_at(&["metadata", "name"]) {
            true => Ok(()),
            false => Err(StatusError::bad_request(format!(
                "name in URL does not match name in {kind} object"
            ))),
        }
    }
}

/// An answer.
#[derive(Debug)]
pub enum Answered {
    /// An object of the kind that was sent.
    Object(Value),
    /// That it was done.
    Status(Status),
}

/// An [`Answer`] to be shared.
#[derive(Clone)]
pub struct Answerer(Arc<dyn Answer>);

impl Answerer {
    /// Who answers, whatever it is made of.
    pub fn new(answer: impl Answer) -> Self {
        Answerer(Arc::new(answer))
    }
}

impl std::ops::Deref for Answerer {
    type Target = dyn Answer;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl std::fmt::Debug for Answerer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answerer")
    }
}
