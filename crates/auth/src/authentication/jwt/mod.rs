//! JSON web tokens of others: OpenID Connect, by flags or by a configuration file.

mod configured;
pub(super) mod expression;
mod mapping;
mod provider;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kevel_api::quote::quote;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_server::authentication::{AuthError, Known, TokenAuthenticated, TokenAuthenticator};
use kevel_server::handler::Pending;
use tokio::sync::watch;

pub use self::configured::{ConfiguredTokens, Source};
use self::mapping::Mapping;
use self::provider::{Location, RemoteKeys};
use super::configuration::JwtConfiguration;
use crate::jose::{Token, audience_claim, time_claim};

/// Every algorithm that a token may be signed with.
pub const SIGNING_ALGORITHMS: [&str; 9] =
    ["ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];

/// How long an issuer that cannot be reached is waited for before it is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// How far clocks may be apart, in seconds.
const LEEWAY: i64 = 60;

/// Google's tokens do not name their issuer as its URL.
const GOOGLE: (&str, &str) = ("accounts.google.com", "https://accounts.google.com");

/// Knows the users of one issuer's tokens.
#[derive(Debug)]
pub struct JwtTokens {
    issuer: String,
    audiences: Vec<String>,
    algorithms: Vec<String>,
    mapping: Mapping,
    /// There once the issuer has been reached.
    keys: OnceLock<RemoteKeys>,
    /// Why the issuer has not been reached yet; nothing once it has.
    health: watch::Sender<Option<String>>,
}

impl JwtTokens {
    /// Accepts the tokens of an issuer that are signed in one of these ways. The issuer is asked for
    /// its keys in a task of its own, until it answers: this must be called in a runtime.
    pub fn start(config: &JwtConfiguration, algorithms: &[String]) -> Result<Arc<Self>, String> {
        let known = |algorithm: &&String| SIGNING_ALGORITHMS.contains(&algorithm.as_str());
        if let Some(unknown) = algorithms.iter().find(|algorithm| !known(algorithm)) {
            return Err(format!("oidc: unsupported signing alg: {}", quote(unknown)));
        }
        let issuer = &config.issuer;
        // Nothing here goes through an egress selector yet; another way is not the one asked for.
        if !issuer.egress_selector_type.is_empty() {
            let egress = quote(&issuer.egress_selector_type);
            return Err(format!("oidc: egress lookup required with egress selector type {egress}"));
        }
        let problem =
            format!("oidc: authenticator for issuer {} is not initialized", quote(&issuer.url));
        let tokens = Arc::new(JwtTokens {
            issuer: issuer.url.clone(),
            audiences: issuer.audiences.clone(),
            algorithms: algorithms.to_vec(),
            mapping: Mapping::new(config)?,
            keys: OnceLock::new(),
            health: watch::Sender::new(Some(problem)),
        });
        let location = Location {
            issuer: issuer.url.clone(),
            discovery_url: issuer.discovery_url.clone(),
            certificate_authority: issuer.certificate_authority.clone(),
        };
        let weak = Arc::downgrade(&tokens);
        tokio::spawn(async move {
            loop {
                let found = RemoteKeys::discover(&location).await;
                // Nobody needs the keys of an issuer that is no longer accepted.
                let Some(tokens) = weak.upgrade() else { return };
                match found {
                    Ok(keys) => {
                        let _ = tokens.keys.set(keys);
                        tokens.health.send_replace(None);
                        return;
                    }
                    Err(error) => {
                        tracing::error!("oidc authenticator: initializing plugin: {error}");
                        tokens.health.send_replace(Some(error));
                    }
                }
                drop(tokens);
                tokio::time::sleep(RETRY).await;
            }
        });
        Ok(tokens)
    }

    /// Waits until the issuer has been reached.
    pub async fn healthy(&self) {
        // The sender is this one's own.
        let _ = self.health.subscribe().wait_for(Option::is_none).await;
    }

    /// Why the issuer has not been reached yet.
    pub fn problem(&self) -> Option<String> {
        self.health.borrow().clone()
    }

    async fn known(&self, token: &str) -> Result<Option<Known>, String> {
        let is_ours = |token: &Token<'_>| {
            let said = token.unverified().str_at(&["iss"]);
            self.issuer == if said == GOOGLE.0 { GOOGLE.1 } else { said }
        };
        let Some(token) = Token::parse(token).filter(is_ours) else { return Ok(None) };
        let keys = self.keys.get().ok_or("oidc: authenticator not initialized")?;
        let claims = self.verify(token, keys).await;
        let claims = claims.map_err(|error| format!("oidc: verify token: {error}"))?;
        Ok(Some(Known::new(self.mapping.user(&claims)?, Vec::new())))
    }

    /// What a token says, if its issuer says it, to this server, now.
    async fn verify(&self, token: Token<'_>, keys: &RemoteKeys) -> Result<Value, String> {
        if !self.algorithms.iter().any(|algorithm| algorithm == token.algorithm()) {
            return Err(format!(
                "oidc: id token signed with unsupported algorithm, expected {} got {}",
                quoted(&self.algorithms),
                quote(token.algorithm())
            ));
        }
        let signed = keys.any(|key| {
            let id = token.key_id();
            (id.is_empty() || key.id() == id) && token.is_signed_with(key)
        });
        if !signed.await.map_err(|error| format!("failed to verify signature: {error}"))? {
            return Err("failed to verify signature: failed to verify id token signature".into());
        }
        let claims = token.unverified();
        let said = audience_claim(claims)?;
        if !self.audiences.iter().any(|audience| said.contains(audience)) {
            let expected = match &self.audiences[..] {
                [one] => quote(one),
                all => format!("in {}", quoted(all)),
            };
            return Err(format!("oidc: expected audience {expected} got {}", quoted(&said)));
        }
        let now = Time::now().seconds;
        let expires = time_claim(claims, "exp")?;
        if expires.is_none_or(|expires| expires <= now) {
            let expires = Time { seconds: expires.unwrap_or(Time::ZERO.seconds) };
            return Err(format!("oidc: token is expired (Token Expiry: {expires})"));
        }
        if let Some(begins) = time_claim(claims, "nbf")?.filter(|begins| now + LEEWAY < *begins) {
            let (now, begins) = (Time { seconds: now }, Time { seconds: begins });
            return Err(format!(
                "oidc: current time {now} before the nbf (not before) time: {begins}"
            ));
        }
        Ok(claims.clone())
    }
}

impl TokenAuthenticator for JwtTokens {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        _audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        Box::pin(async move {
            let known = self.known(token).await.map_err(AuthError)?;
            Ok(known.map(Arc::new))
        })
    }
}

/// `["a" "b"]`
fn quoted(all: &[String]) -> String {
    let all: Vec<_> = all.iter().map(|one| quote(one)).collect();
    format!("[{}]", all.join(" "))
}
