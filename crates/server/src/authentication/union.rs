//! Several authenticators, in order.

use std::sync::Arc;

use super::{AuthError, Authenticated, Authenticator};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::failure::aggregate;

/// Tries authenticators in order until one returns a user. Without members, it returns none.
#[derive(Clone, Default)]
pub struct Union {
    members: Vec<Arc<dyn Authenticator>>,
    fail_on_error: bool,
}

impl std::fmt::Debug for Union {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Union of {} authenticators", self.members.len())
    }
}

impl Union {
    /// Continues after an error: the next authenticator may know the user.
    pub fn new(members: Vec<Arc<dyn Authenticator>>) -> Self {
        Union { members, fail_on_error: false }
    }

    /// Stops at the first error: a request with invalid credentials must not become anonymous.
    pub fn fail_on_error(members: Vec<Arc<dyn Authenticator>>) -> Self {
        Union { members, fail_on_error: true }
    }
}

impl Authenticator for Union {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        Box::pin(async move {
            let mut errors = Vec::new();
            for member in &self.members {
                match member.authenticate(request).await {
                    Ok(Some(user)) => return Ok(Some(user)),
                    Ok(None) => {}
                    Err(error) if self.fail_on_error => return Err(error),
                    Err(error) => errors.push(error.0),
                }
            }
            aggregate(errors).map_or(Ok(None), |error| Err(AuthError(error)))
        })
    }
}
