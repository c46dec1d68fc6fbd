//! Verification of tokens: issuer, signature and audiences.

use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_server::authentication::common_audiences;

use super::keys::Keys;
use super::metrics::TokenUses;
use crate::jose::{Token, audience_claim};

/// Audit annotation of requests with a token without an audience.
const LEGACY_TOKEN: &str = "authentication.k8s.io/legacy-token";

/// Verifier of tokens' issuer, signature and audience.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// Accepted issuers.
    pub issuers: Vec<String>,
    /// Accepted keys.
    pub keys: Keys,
    /// Audiences of this server, which apply to tokens without an audience.
    pub audiences: Vec<String>,
    /// Counters of token uses.
    pub uses: Arc<TokenUses>,
}

/// A verified token.
#[derive(Debug)]
pub(super) struct Signed {
    pub claims: Value,
    /// Requested audiences that the token is valid for.
    pub audiences: Vec<String>,
    /// Audit annotations.
    pub annotations: Vec<(&'static str, String)>,
}

impl Verifier {
    /// Verifies a token; `None` if it is not of these issuers.
    pub(super) async fn verify(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<Signed>, String> {
        let ours = |claims: &Value| self.issuers.iter().any(|ours| ours == claims.str_at(&["iss"]));
        let Some(token) = Token::parse(token).filter(|token| ours(token.unverified())) else {
            return Ok(None);
        };
        match self.keys.any(token.key_id(), |key| token.is_signed_with(key)).await {
            None => return Err("invalid signature, no keys found".to_owned()),
            Some(false) => {
                return Err("go-jose/go-jose: error in cryptographic primitive".to_owned());
            }
            Some(true) => {}
        }
        let claims = token.unverified().clone();
        let said = audience_claim(&claims)?;
        let mut annotations = Vec::new();
        let said = match said.is_empty() {
            true => {
                self.uses.legacy.increment();
                annotations.push((LEGACY_TOKEN, claims.str_at(&["sub"]).to_owned()));
                self.audiences.clone()
            }
            false => said,
        };
        let asked = if audiences.is_empty() { &self.audiences } else { audiences };
        let common = common_audiences(&said, asked);
        if common.is_empty() && !self.audiences.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(&said),
                quoted(asked)
            ));
        }
        Ok(Some(Signed { claims, audiences: common, annotations }))
    }
}

/// Quoted list as Go prints it: `["a" "b"]`.
fn quoted(all: &[String]) -> String {
    let all: Vec<_> = all.iter().map(|one| quote(one).to_string()).collect();
    format!("[{}]", all.join(" "))
}
