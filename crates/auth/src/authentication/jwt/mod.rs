//! JWTs of OpenID Connect issuers, configured by flags or a file.

mod configured;
mod distributed;
pub(super) mod expression;
mod mapping;
mod metrics;
mod provider;
mod verifier;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kevel_api::quote::quote;
use kevel_clock::Stopwatch;
use kevel_component::future::Pending;
use kevel_server::authentication::{AuthError, Known, TokenAuthenticated, TokenAuthenticator};
use kevel_server::certificates::verify::Purpose;
use kevel_server::certificates::warn_unable_to_sign;
use kevel_server::egress::{Dialer, EgressSelector, EgressType, LookupError};
use kevel_server::webhook::Documents;

pub use self::configured::{ConfiguredTokens, Source};
use self::distributed::DistributedClaim;
use self::mapping::Mapping;
use self::metrics::IssuerMetrics;
pub use self::metrics::JwtMetrics;
use self::provider::Provider;
use self::verifier::{Expected, Verifier};
use super::configuration::JwtConfiguration;
use crate::jose::Token;

/// Supported signature algorithms.
pub const SIGNING_ALGORITHMS: [&str; 9] =
    ["ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];

/// Google's tokens have an issuer that is not its URL.
const GOOGLE: (&str, &str) = ("accounts.google.com", "https://accounts.google.com");

/// Authenticator of one issuer's tokens.
#[derive(Debug)]
pub struct JwtTokens {
    issuer: String,
    verifier: Arc<Verifier>,
    groups: Option<DistributedClaim>,
    mapping: Mapping,
    metrics: IssuerMetrics,
}

impl JwtTokens {
    /// Starts an authenticator for these algorithms. A task asks the issuer for its keys until it answers: must be
    /// called in a runtime.
    pub fn start(
        config: &JwtConfiguration,
        algorithms: &[String],
        egress: &EgressSelector,
        metrics: &Arc<JwtMetrics>,
    ) -> Result<Arc<Self>, String> {
        let known = |algorithm: &&String| SIGNING_ALGORITHMS.contains(&algorithm.as_str());
        if let Some(unknown) = algorithms.iter().find(|algorithm| !known(algorithm)) {
            return Err(format!("oidc: unsupported signing alg: {}", quote(unknown)));
        }
        let issuer = &config.issuer;
        let dialer = dialer(&issuer.egress_selector_type, egress)?;
        let mapping = Mapping::new(config)?;
        let ca = Some(issuer.certificate_authority.as_bytes().to_vec());
        let source = format_args!("certificateAuthority of issuer {}", issuer.url);
        warn_unable_to_sign(source, Purpose::ServerAuth, &ca);
        let documents = Arc::new(Documents::new(ca.filter(|ca| !ca.is_empty()), dialer)?);
        let expected = Arc::new(Expected {
            audiences: issuer.audiences.clone(),
            algorithms: algorithms.to_vec(),
        });
        let clock = metrics.clock.clone();
        let metrics = IssuerMetrics::new(metrics, &issuer.url);
        let provider = Provider {
            issuer: issuer.url.clone(),
            discovery_url: issuer.discovery_url.clone(),
            documents: documents.clone(),
            metrics: Some(metrics.clone()),
            clock: clock.clone(),
        };
        let verifier = Verifier::start(provider, expected.clone());
        let groups = Some(config.groups.claim.clone()).filter(|claim| !claim.is_empty());
        let groups = groups.map(|claim| {
            let issuers = BTreeMap::from([(issuer.url.clone(), verifier.clone())]);
            DistributedClaim { claim, documents, expected, issuers: Mutex::new(issuers), clock }
        });
        Ok(Arc::new(JwtTokens { issuer: issuer.url.clone(), verifier, groups, mapping, metrics }))
    }

    /// Waits until the issuer was reached.
    pub async fn healthy(&self) {
        self.verifier.healthy().await;
    }

    /// Error of the last attempt to reach the issuer; `None` once it was reached.
    pub fn problem(&self) -> Option<String> {
        let issuer = quote(&self.issuer);
        self.verifier.problem().map(|why| format!("oidc: authenticator for issuer {issuer} {why}"))
    }

    /// URL of the issuer.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    async fn known(&self, token: &Token<'_>) -> Result<Known, String> {
        if self.verifier.problem().is_some() {
            return Err("oidc: authenticator not initialized".to_owned());
        }
        let claims = self.verifier.verify(token).await;
        let mut claims = claims.map_err(|error| format!("oidc: verify token: {error}"))?;
        if let Some(groups) = &self.groups {
            groups
                .expand(&mut claims)
                .await
                .map_err(|error| format!("oidc: could not expand distributed claims: {error}"))?;
        }
        Ok(Known::new(self.mapping.user(&claims)?, Vec::new()))
    }
}

impl TokenAuthenticator for JwtTokens {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        _audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        Box::pin(async move {
            let token = Token::parse(token).filter(|token| issuer_of(token) == self.issuer);
            let Some(token) = token else { return Ok(None) };
            let start = Stopwatch::start();
            let known = self.known(&token).await;
            self.metrics.looked(known.is_ok(), start.elapsed());
            Ok(Some(Arc::new(known.map_err(AuthError)?)))
        })
    }
}

/// Dialer to an issuer. A requested egress selection must be configured.
fn dialer(selector_type: &str, egress: &EgressSelector) -> Result<Dialer, String> {
    if selector_type.is_empty() {
        return Ok(Dialer::default());
    }
    let quoted = quote(selector_type);
    let ty = EgressType::named(selector_type);
    let ty = ty.ok_or_else(|| format!("oidc: unknown egress selector type {quoted}"))?;
    egress.lookup(ty).map_err(|error| match error {
        LookupError::NoSelector => {
            format!("oidc: egress lookup required with egress selector type {quoted}")
        }
        LookupError::NotConfigured => format!("oidc: egress lookup for {quoted} is not configured"),
    })
}

/// Issuer claimed by a token.
fn issuer_of<'t>(token: &'t Token<'_>) -> &'t str {
    match token.unverified().str_at(&["iss"]) {
        issuer if issuer == GOOGLE.0 => GOOGLE.1,
        issuer => issuer,
    }
}
