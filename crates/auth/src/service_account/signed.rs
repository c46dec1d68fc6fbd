//! Whether a token was signed here, and for whom.

use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_server::authentication::common_audiences;

use super::keys::Keys;
use super::metrics::TokenUses;
use crate::jose::{Token, audience_claim};

/// The annotation of requests with a token that does not say whom it is for.
const LEGACY_TOKEN: &str = "authentication.k8s.io/legacy-token";

/// What tokens are verified with, whatever they say besides.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// Who may have issued a token.
    pub issuers: Vec<String>,
    /// Which keys may have signed it.
    pub keys: Keys,
    /// Whom this server is for: what tokens are for that do not say so.
    pub audiences: Vec<String>,
    /// Counts what tokens are used.
    pub uses: Arc<TokenUses>,
}

/// A token that was signed here.
#[derive(Debug)]
pub(super) struct Signed {
    pub claims: Value,
    /// For which of the audiences it is good.
    pub audiences: Vec<String>,
    /// What the audit log should tell.
    pub annotations: Vec<(&'static str, String)>,
}

impl Verifier {
    /// What a token says; `None` if it is none of these issuers'.
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

/// `["a" "b"]`
fn quoted(all: &[String]) -> String {
    let all: Vec<_> = all.iter().map(|one| quote(one).to_string()).collect();
    format!("[{}]", all.join(" "))
}
