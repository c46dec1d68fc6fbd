//! Authentication: the seam ([`Authenticator`]) and the simple ones.
//!
//! An [`Authenticator`] reads a request's credentials: it knows the user, finds nothing that it
//! could judge, or finds something that is wrong. [`Union`] asks several in the order of the
//! reference: front proxy, client certificate, then bearer tokens; [`Anonymous`] comes after all, and not for
//! somebody whose credentials were wrong.

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

use crate::future::Pending;
use crate::request::Request;
use crate::user::User;

/// Authenticates requests (`authenticator.Request`).
pub trait Authenticator: Send + Sync + 'static {
    /// The user; `None` if the request has no credentials for this authenticator to judge. May take
    /// the credentials out of the request.
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated>;
}

/// What an authenticator finds.
pub type Authenticated = Result<Option<Arc<User>>, AuthError>;

impl<A: Authenticator + ?Sized> Authenticator for Arc<A> {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        (**self).authenticate(request)
    }
}

/// Why credentials are not good. For the log: the client is told only that they are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthError(pub String);

impl std::fmt::Display for AuthError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AuthError {}
