//! Authentication: the trait [`Authenticator`] and simple implementations.
//!
//! An [`Authenticator`] reads a request's credentials: it returns the user, `None` if there are no credentials of its
//! type, or an error if they are invalid. [`Union`] tries several in the reference's order: front proxy, client
//! certificate, bearer tokens; [`Anonymous`] comes last, and not after invalid credentials.

mod anonymous;
mod bearer_token;
mod client_certificate;
mod csv;
mod group;
mod token;
mod token_file;
mod union;
mod websocket;

use std::sync::Arc;

pub use anonymous::Anonymous;
pub use bearer_token::BearerToken;
pub use client_certificate::ClientCertificate;
pub use group::AuthenticatedGroup;
pub use token::{
    AudienceAgnostic, Known, TokenAuthenticated, TokenAuthenticator, TokenUnion, common_audiences,
};
pub use token_file::TokenFile;
pub use union::Union;
pub use websocket::WebSocketToken;

use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::user::User;

/// Authenticates requests (upstream: `authenticator.Request`).
pub trait Authenticator: Send + Sync + 'static {
    /// The user; `None` if the request has no credentials for this authenticator. May remove the credentials from the
    /// request.
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated>;
}

/// Result of an authenticator.
pub type Authenticated = Result<Option<Arc<User>>, AuthError>;

impl<A: Authenticator + ?Sized> Authenticator for Arc<A> {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        (**self).authenticate(request)
    }
}

/// Error of invalid credentials. For the log: the client gets only a 401.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthError(pub String);

impl std::fmt::Display for AuthError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AuthError {}
