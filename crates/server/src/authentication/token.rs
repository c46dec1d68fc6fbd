//! Tokens: their users and audiences.

use std::sync::Arc;

use super::group::in_authenticated_group;
use super::{AuthError, Authenticated};
use crate::audit::AuditContext;
use kevel_component::future::Pending;
use kevel_registry::audit::AuditEvent as _;
use kevel_registry::failure::aggregate;
use kevel_registry::user::User;
use kevel_registry::warnings::Warnings;

/// Authenticates tokens (upstream: `authenticator.Token`).
pub trait TokenAuthenticator: Send + Sync + 'static {
    /// User of a token that is valid for one of these audiences; `None` if the token is unknown to this authenticator.
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated>;
}

impl<A: TokenAuthenticator + ?Sized> TokenAuthenticator for Arc<A> {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        (**self).authenticate_token(token, audiences)
    }
}

/// Result of a token authenticator.
pub type TokenAuthenticated = Result<Option<Arc<Known>>, AuthError>;

/// A valid token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// User of the token; a member of `system:authenticated`.
    pub user: Arc<User>,
    /// Requested audiences that the token is valid for. Empty if none were requested.
    pub audiences: Vec<String>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Annotations of the audit event.
    pub annotations: Vec<(&'static str, String)>,
}

impl Known {
    /// A user whose token is valid for these audiences.
    pub fn new(user: User, audiences: Vec<String>) -> Self {
        let user = Arc::new(in_authenticated_group(user));
        Known { user, audiences, ..Known::default() }
    }
}

/// Audiences in both lists, in the order of the first.
pub fn common_audiences(first: &[String], second: &[String]) -> Vec<String> {
    first.iter().filter(|audience| second.contains(audience)).cloned().collect()
}

/// Several token authenticators, in order.
#[derive(Clone)]
pub struct TokenUnion {
    members: Vec<Arc<dyn TokenAuthenticator>>,
    fail_on_error: bool,
}

impl TokenUnion {
    /// Continues after an error: the next authenticator may know the token.
    pub fn new(members: Vec<Arc<dyn TokenAuthenticator>>) -> Self {
        TokenUnion { members, fail_on_error: false }
    }

    /// Stops at the first error.
    pub fn fail_on_error(members: Vec<Arc<dyn TokenAuthenticator>>) -> Self {
        TokenUnion { members, fail_on_error: true }
    }
}

impl std::fmt::Debug for TokenUnion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenUnion of {} token authenticators", self.members.len())
    }
}

impl TokenAuthenticator for TokenUnion {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        Box::pin(async move {
            let mut errors = Vec::new();
            for member in &self.members {
                match member.authenticate_token(token, audiences).await {
                    Ok(Some(known)) => return Ok(Some(known)),
                    Ok(None) => {}
                    Err(error) if self.fail_on_error => return Err(error),
                    Err(error) => errors.push(error.0),
                }
            }
            aggregate(errors).map_or(Ok(None), |error| Err(AuthError(error)))
        })
    }
}

/// Adapter of an authenticator without audiences: its tokens are valid for the server's own.
#[derive(Debug)]
pub struct AudienceAgnostic<A> {
    inner: A,
    audiences: Vec<String>,
}

impl<A: TokenAuthenticator> AudienceAgnostic<A> {
    /// Tokens of `inner` are valid for these audiences.
    pub fn new(inner: A, audiences: &[String]) -> Self {
        AudienceAgnostic { inner, audiences: audiences.to_vec() }
    }
}

impl<A: TokenAuthenticator> TokenAuthenticator for AudienceAgnostic<A> {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        Box::pin(async move {
            let common = common_audiences(&self.audiences, audiences);
            if common.is_empty() && !audiences.is_empty() {
                return Ok(None);
            }
            let known = self.inner.authenticate_token(token, audiences).await?;
            Ok(known.map(|known| match known.audiences == common {
                true => known,
                false => Arc::new(Known { audiences: common, ..(*known).clone() }),
            }))
        })
    }
}

/// User of a token that is valid for one of the audiences.
pub(super) async fn user_of(
    tokens: &dyn TokenAuthenticator,
    token: &str,
    audiences: &[String],
    warnings: &Warnings,
    audit: &AuditContext,
) -> Authenticated {
    // An unknown token is an error: the request must not become anonymous.
    let unknown = || AuthError("invalid bearer token".to_owned());
    // Bytes that were not UTF-8 were replaced by this character, so the token is not the one that was sent.
    if token.contains(char::REPLACEMENT_CHARACTER) {
        return Err(unknown());
    }
    let known = tokens.authenticate_token(token, audiences).await?.ok_or_else(unknown)?;
    let told = !audiences.is_empty() && !known.audiences.is_empty();
    if told && common_audiences(audiences, &known.audiences).is_empty() {
        let (known, accepted) = (known.audiences.join(" "), audiences.join(" "));
        let error = format!("unable to match the audience: [{known}] , accepted: [{accepted}]");
        return Err(AuthError(error));
    }
    known.warnings.iter().for_each(|warning| warnings.add(warning.as_str()));
    known.annotations.iter().for_each(|(key, value)| audit.annotate(key, value));
    Ok(Some(known.user.clone()))
}
