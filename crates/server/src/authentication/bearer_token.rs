//! `Authorization: Bearer <token>`.

use std::sync::Arc;

use http::header::AUTHORIZATION;

use super::token::{self, TokenAuthenticator};
use super::{Authenticated, Authenticator};
use crate::audit::AuditContext;
use crate::handler::Pending;
use crate::request::{Request, Warnings};

const SPACE_BEFORE_TOKEN: &str = "the provided Authorization header contains extra space before \
                                  the bearer token, and is ignored";

/// Takes the token from the request and asks whose it is.
#[derive(Clone)]
pub struct BearerToken {
    tokens: Arc<dyn TokenAuthenticator>,
    audiences: Arc<[String]>,
}

impl std::fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BearerToken for {:?}", self.audiences)
    }
}

impl BearerToken {
    /// Asks about a token that is to be good for one of these audiences: the server's own.
    pub fn new(tokens: Arc<dyn TokenAuthenticator>, audiences: &[String]) -> Self {
        BearerToken { tokens, audiences: audiences.into() }
    }

    pub(super) async fn user_of(
        &self,
        token: &str,
        warnings: &Warnings,
        audit: &AuditContext,
    ) -> Authenticated {
        token::user_of(&*self.tokens, token, &self.audiences, warnings, audit).await
    }
}

impl Authenticator for BearerToken {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        Box::pin(async move {
            let token = match extract(request.header(AUTHORIZATION)) {
                Extracted::Token(token) => token.to_owned(),
                Extracted::None => return Ok(None),
                Extracted::SpaceBefore => {
                    request.warnings.add(SPACE_BEFORE_TOKEN);
                    return Ok(None);
                }
            };
            let user = self.user_of(&token, &request.warnings, &request.audit).await?;
            request.parts.headers.remove(AUTHORIZATION);
            Ok(user)
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Extracted<'a> {
    Token(&'a str),
    SpaceBefore,
    None,
}

/// The token is the second word; what follows it is not looked at.
fn extract(header: &str) -> Extracted<'_> {
    let mut parts = header.trim().splitn(3, ' ');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(scheme), Some(token), rest) if scheme.eq_ignore_ascii_case("bearer") => {
            match (token, rest) {
                ("", Some(_)) => Extracted::SpaceBefore,
                ("", None) => Extracted::None,
                _ => Extracted::Token(token),
            }
        }
        _ => Extracted::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_second_word_after_bearer() {
        for (header, expected) in [
            ("", Extracted::None),
            ("Bearer", Extracted::None),
            ("Bearer ", Extracted::None),
            ("Basic abc", Extracted::None),
            ("Bearer abc", Extracted::Token("abc")),
            ("  bEARER abc  ", Extracted::Token("abc")),
            ("Bearer abc def", Extracted::Token("abc")),
            ("Bearer  abc", Extracted::SpaceBefore),
            ("Bearer\tabc", Extracted::None),
        ] {
            assert_eq!(extract(header), expected, "{header:?}");
        }
    }
}
