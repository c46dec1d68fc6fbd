//! Whether a token is what an issuer said, to this server, and still means.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kevel_api::quote::quote;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_clock::Clock;
use tokio::sync::watch;

use super::provider::{Provider, RemoteKeys};
use crate::jose::{Token, audience_claim, time_claim};

/// How long an issuer that cannot be reached is waited for before it is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// How far clocks may be apart, in seconds.
const LEEWAY: i64 = 60;

/// Where a token says that claims are to be found (OpenID Connect Core 1.0, section 5.6.2).
pub(super) const CLAIM_NAMES: &str = "_claim_names";
pub(super) const CLAIM_SOURCES: &str = "_claim_sources";

/// What tokens have to be like, whoever issued them.
#[derive(Debug)]
pub(super) struct Expected {
    /// One of which a token must be for.
    pub audiences: Vec<String>,
    /// In one of which a token must be signed.
    pub algorithms: Vec<String>,
}

/// Verifies the tokens of one issuer, once it has been reached.
#[derive(Debug)]
pub(super) struct Verifier {
    expected: Arc<Expected>,
    keys: OnceLock<RemoteKeys>,
    reached: watch::Sender<Reached>,
    clock: Clock,
}

#[derive(Clone, Debug)]
enum Reached {
    NotTried,
    No(String),
    Yes,
}

impl Verifier {
    /// Asks a provider where its keys are, in a task of its own, until it answers: this must be
    /// called in a runtime.
    pub fn start(provider: Provider, expected: Arc<Expected>) -> Arc<Self> {
        let reached = watch::Sender::new(Reached::NotTried);
        let clock = provider.clock.clone();
        let verifier = Arc::new(Verifier { expected, keys: OnceLock::new(), reached, clock });
        let weak = Arc::downgrade(&verifier);
        tokio::spawn(async move {
            loop {
                let found = provider.discover().await;
                // Nobody needs the keys of an issuer that is no longer accepted.
                let Some(verifier) = weak.upgrade() else { return };
                match found {
                    Ok(keys) => {
                        let _ = verifier.keys.set(keys);
                        verifier.reached.send_replace(Reached::Yes);
                        return;
                    }
                    Err(error) => {
                        tracing::error!("oidc authenticator: initializing plugin: {error}");
                        verifier.reached.send_replace(Reached::No(error));
                    }
                }
                drop(verifier);
                tokio::time::sleep(RETRY).await;
            }
        });
        verifier
    }

    /// Waits until the issuer has been reached.
    pub async fn healthy(&self) {
        // The sender is this one's own.
        let _ = self.reached.subscribe().wait_for(|reached| matches!(reached, Reached::Yes)).await;
    }

    /// Waits until it is known whether the issuer can be reached. It has been if `true`.
    pub async fn tried(&self) -> bool {
        let mut reached = self.reached.subscribe();
        let tried = reached.wait_for(|reached| !matches!(reached, Reached::NotTried)).await;
        tried.is_ok_and(|reached| matches!(*reached, Reached::Yes))
    }

    /// Why the issuer has not been reached yet; `None` once it has.
    pub fn problem(&self) -> Option<String> {
        match &*self.reached.borrow() {
            Reached::NotTried => Some("is not initialized".to_owned()),
            Reached::No(error) => Some(format!("is not healthy: {error}")),
            Reached::Yes => None,
        }
    }

    /// What a token says. That it names this issuer has been looked at.
    pub async fn verify(&self, token: &Token<'_>) -> Result<Value, String> {
        let keys = self.keys.get().ok_or("oidc: authenticator not initialized")?;
        let Expected { audiences, algorithms } = &*self.expected;
        if !algorithms.iter().any(|algorithm| algorithm == token.algorithm()) {
            return Err(format!(
                "oidc: id token signed with unsupported algorithm, expected {} got {}",
                quoted(algorithms),
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
        check_sources(claims)?;
        let said = audience_claim(claims)?;
        if !audiences.iter().any(|audience| said.contains(audience)) {
            let expected = match &audiences[..] {
                [one] => quote(one),
                all => format!("in {}", quoted(all)),
            };
            return Err(format!("oidc: expected audience {expected} got {}", quoted(&said)));
        }
        check_time(claims, Time::now(&self.clock).seconds)?;
        Ok(claims.clone())
    }
}

/// Claims that are elsewhere have to be somewhere.
fn check_sources(claims: &Value) -> Result<(), String> {
    let object = |name: &str| match claims.at(&[name]) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Map(map)) => Ok(Some(map)),
        Some(_) => Err(format!("oidc: failed to unmarshal claims: {name} is not an object")),
    };
    let (names, sources) = (object(CLAIM_NAMES)?, object(CLAIM_SOURCES)?);
    for (_, source) in names.into_iter().flat_map(|names| names.iter()) {
        let source = source.as_str().filter(|source| !source.is_empty());
        let source = source.ok_or("oidc: failed to obtain source from claim name")?;
        if sources.is_none_or(|sources| sources.get(source).is_none()) {
            return Err("oidc: source does not exist".to_owned());
        }
    }
    Ok(())
}

fn check_time(claims: &Value, now: i64) -> Result<(), String> {
    let expires = time_claim(claims, "exp")?;
    if expires.is_none_or(|expires| expires <= now) {
        let expires = Time { seconds: expires.unwrap_or(Time::ZERO.seconds) };
        return Err(format!("oidc: token is expired (Token Expiry: {expires})"));
    }
    if let Some(begins) = time_claim(claims, "nbf")?.filter(|begins| now + LEEWAY < *begins) {
        let (now, begins) = (Time { seconds: now }, Time { seconds: begins });
        return Err(format!("oidc: current time {now} before the nbf (not before) time: {begins}"));
    }
    Ok(())
}

/// `["a" "b"]`
fn quoted(all: &[String]) -> String {
    let all: Vec<_> = all.iter().map(|one| quote(one)).collect();
    format!("[{}]", all.join(" "))
}
