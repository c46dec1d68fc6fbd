//! Distributed claims: groups at another endpoint (OpenID Connect Core 1.0, section 5.6.2).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_clock::Clock;
use kevel_server::webhook::{Documents, REQUEST_TIMEOUT};

use super::issuer_of;
use super::provider::Provider;
use super::verifier::{CLAIM_NAMES, CLAIM_SOURCES, Expected, Verifier};
use crate::jose::Token;

/// Maximum number of issuers of distributed claims. Each is asked for its keys until it answers.
const MOST_ISSUERS: usize = 16;

/// Resolver of a distributed claim.
#[derive(Debug)]
pub(super) struct DistributedClaim {
    pub claim: String,
    pub documents: Arc<Documents>,
    pub expected: Arc<Expected>,
    /// Verifiers by issuer.
    pub issuers: Mutex<BTreeMap<String, Arc<Verifier>>>,
    pub clock: Clock,
}

impl DistributedClaim {
    /// Resolves the claim and adds it to verified claims, if they refer to an endpoint.
    pub async fn expand(&self, claims: &mut Value) -> Result<(), String> {
        let claim = self.claim.as_str();
        if claims.at(&[claim]).is_some() {
            return Ok(());
        }
        let Some(names) = claims.at(&[CLAIM_NAMES]).filter(|names| !names.is_null()) else {
            return Ok(());
        };
        let sources = claims.at(&[CLAIM_SOURCES]).filter(|sources| !sources.is_null());
        let sources = sources.ok_or("oidc: no claim sources")?;
        let source = names.str_at(&[claim]);
        // Without an endpoint it may be an aggregated claim, which is not supported.
        let url = sources.str_at(&[source, "endpoint"]);
        if source.is_empty() || url.is_empty() {
            return Ok(());
        }
        let value = self.resolve(url, sources.str_at(&[source, "access_token"])).await?;
        if let Some(claims) = claims.as_map_mut() {
            claims.insert(claim, value);
        }
        Ok(())
    }

    async fn resolve(&self, url: &str, access_token: &str) -> Result<Value, String> {
        let claim = &self.claim;
        let text = self.get(url, access_token).await.map_err(|error| {
            format!("while getting distributed claim {}: {error}", quote(claim))
        })?;
        let token = Token::parse(text.trim()).ok_or_else(|| {
            let claim = quote(claim);
            format!(
                "getting untrusted issuer from endpoint {url} failed for claim {claim}: malformed \
                 token"
            )
        })?;
        let issuer = issuer_of(&token);
        let verifier = self.verifier(issuer).await;
        let verifier = verifier
            .map_err(|error| format!("verifying untrusted issuer {issuer} failed: {error}"))?;
        let verified = verifier.verify(&token).await;
        let verified =
            verified.map_err(|error| format!("verify distributed claim token: {error}"))?;
        verified.at(&[claim]).cloned().ok_or_else(|| {
            let url = quote(url);
            format!(
                "jwt returned by distributed claim endpoint {url} did not contain claim: {claim}"
            )
        })
    }

    async fn get(&self, url: &str, access_token: &str) -> Result<String, String> {
        let token = Some(access_token).filter(|token| !token.is_empty());
        let answer = self.documents.get(url, token, REQUEST_TIMEOUT).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if !answer.status().is_success() {
            let status = answer.status();
            return Err(format!("error while getting distributed claim JWT: {status}"));
        }
        String::from_utf8(answer.into_body().into())
            .map_err(|_| "could not decode distributed claim response".to_owned())
    }

    /// Verifier of an issuer's tokens, once the issuer was reached.
    async fn verifier(&self, issuer: &str) -> Result<Arc<Verifier>, String> {
        let verifier = {
            let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
            match issuers.get(issuer) {
                Some(verifier) => verifier.clone(),
                None if issuers.len() >= MOST_ISSUERS => {
                    return Err(format!("more than {MOST_ISSUERS} issuers"));
                }
                None => {
                    let provider = Provider {
                        issuer: issuer.to_owned(),
                        discovery_url: String::new(),
                        documents: self.documents.clone(),
                        metrics: None,
                        clock: self.clock.clone(),
                    };
                    let verifier = Verifier::start(provider, self.expected.clone());
                    issuers.insert(issuer.to_owned(), verifier.clone());
                    verifier
                }
            }
        };
        match verifier.tried().await {
            true => Ok(verifier),
            false => Err(format!("verifier not initialized for issuer: {}", quote(issuer))),
        }
    }
}
