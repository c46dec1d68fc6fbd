//! `Authorization: Bearer <token>`.

use std::sync::Arc;

use http::header::AUTHORIZATION;

use super::token::{self, TokenAuthenticator};
use super::{Authenticated, Authenticator};
use crate::audit::AuditContext;
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::warnings::Warnings;

const SPACE_BEFORE_TOKEN: &str = "the provided Authorization header contains extra space before \
                                  the bearer token, and is ignored";

/// Authenticates the bearer token of a request (upstream: `bearertoken.Authenticator`).
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
    /// Accepts tokens for one of these audiences, the server's own.
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
            let header = request.parts.headers.get(AUTHORIZATION);
            // Any content counts as a credential.
            let header = header.map(|value| String::from_utf8_lossy(value.as_bytes()));
            let token = match extract(header.as_deref().unwrap_or_default()) {
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

/// Extracts the token, the second word; the rest is ignored.
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
    use crate::authentication::{AuthError, TokenFile};
    use crate::request::RequestBody;

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

    /// A header is no credential, a valid one or an invalid one. An invalid one never counts as none.
    #[tokio::test]
    async fn invalid_token_is_refused_and_not_anonymous() {
        // A file in Latin-1, whose bytes cannot be decoded.
        let file = b"abc,jane,1\n\xe9,joe,2\n\xef\xbf\xbd,jim,3\n";
        let file = TokenFile::parse("f", &String::from_utf8_lossy(file)).unwrap();
        let bearer = BearerToken::new(Arc::new(file), &[]);
        let invalid = || Err(AuthError("invalid bearer token".to_owned()));
        for (header, expected) in [
            (&b"Bearer abc"[..], Ok(Some("jane".to_owned()))),
            (b"bearer abc \xff", Ok(Some("jane".to_owned()))),
            (b"", Ok(None)),
            (b"Bearer", Ok(None)),
            (b"Bearer  abc", Ok(None)),
            (b"Bearer\xa0abc", Ok(None)),
            (b"Basic \xff", Ok(None)),
            (b"\xff", Ok(None)),
            (b"Bearer ab", invalid()),
            (b"Bearer \xff", invalid()),
            (b"Bearer \xe9", invalid()),
            (b"Bearer \xef\xbf\xbd", invalid()),
            (b"Bearer abc\xff", invalid()),
            (b"Bearer abc\xc3\xa9", invalid()),
            (b"Bearer abc,", invalid()),
            (b"Bearer \tabc", invalid()),
        ] {
            let sent = http::Request::get("/").header(AUTHORIZATION, header).body(()).unwrap();
            let body = RequestBody::Bytes(bytes::Bytes::new());
            let mut request = Request::new(sent.into_parts().0, body, Arc::default()).unwrap();
            let found = bearer.authenticate(&mut request).await;
            let found = found.map(|user| user.map(|user| user.name.clone()));
            assert_eq!(found, expected, "{}", header.escape_ascii());
            // A token that is accepted is not passed on, for example to an aggregated server.
            let accepted = matches!(found, Ok(Some(_)));
            let left = request.parts.headers.contains_key(AUTHORIZATION);
            assert_eq!(left, !accepted, "{}", header.escape_ascii());
        }
    }
}
