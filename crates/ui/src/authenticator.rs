//! Users of sessions, for the handler chain.

use std::sync::Arc;

use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::authentication::{Authenticated, Authenticator};
use kevel_server::request::Request;

/// Extension of a request: the user of its session. Only this crate can make one.
#[derive(Clone, Debug)]
pub(crate) struct SessionUser(pub(crate) Arc<User>);

/// Authenticates requests of the administrator's sessions; all others are another authenticator's.
pub struct SessionAuthenticator {
    others: Arc<dyn Authenticator>,
}

impl std::fmt::Debug for SessionAuthenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionAuthenticator")
    }
}

impl SessionAuthenticator {
    /// An authenticator in front of the server's own.
    pub fn before(others: Arc<dyn Authenticator>) -> Self {
        SessionAuthenticator { others }
    }
}

impl Authenticator for SessionAuthenticator {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        match request.parts.extensions.remove::<SessionUser>() {
            Some(SessionUser(user)) => Box::pin(std::future::ready(Ok(Some(user)))),
            None => self.others.authenticate(request),
        }
    }
}
