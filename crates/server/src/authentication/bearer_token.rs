//! `Authorization: Bearer <token>`.

use std::sync::Arc;

use http::header::AUTHORIZATION;

use super::{AuthError, Authenticated, Authenticator, aggregate};
use crate::handler::Pending;
use crate::request::Request;

/// Knows the user of a token.
pub trait TokenAuthenticator: Send + Sync + 'static {
    /// The user; `None` if the token is not one of those that this authenticator knows.
    fn authenticate_token<'a>(&'a self, token: &'a str) -> Pending<'a, Authenticated>;
}

const SPACE_BEFORE_TOKEN: &str = "the provided Authorization header contains extra space before \
                                  the bearer token, and is ignored";

/// Takes the token from the request and asks about it, one after the other.
#[derive(Clone)]
pub struct BearerToken(Vec<Arc<dyn TokenAuthenticator>>);

impl std::fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BearerToken with {} token authenticators", self.0.len())
    }
}

impl BearerToken {
    /// Asks these about a token, local ones before remote ones.
    pub fn new(tokens: Vec<Arc<dyn TokenAuthenticator>>) -> Self {
        BearerToken(tokens)
    }

    pub(super) async fn user_of(&self, token: &str) -> Authenticated {
        let mut errors = Vec::new();
        for member in &self.0 {
            match member.authenticate_token(token).await {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(error) => errors.push(error.0),
            }
        }
        // A token that nobody knows is wrong: its bearer is not somebody without credentials.
        Err(AuthError(aggregate(errors).unwrap_or_else(|| "invalid bearer token".to_owned())))
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
            let user = self.user_of(&token).await?;
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
