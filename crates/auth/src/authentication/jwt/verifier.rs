//! Verification of an issuer's tokens: signature, audience and times.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kevel_api::quote::quote;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_clock::Clock;
use tokio::sync::watch;

use super::provider::{Provider, RemoteKeys};
use crate::jose::{Token, audience_claim, time_claim};

/// Delay between attempts to reach an issuer.
const RETRY: Duration = Duration::from_secs(10);
/// Leeway between clocks in seconds.
const LEEWAY: i64 = 60;

/// Claims that refer to distributed claims (OpenID Connect Core 1.0, section 5.6.2).
pub(super) const CLAIM_NAMES: &str = "_claim_names";
pub(super) const CLAIM_SOURCES: &str = "_claim_sources";

/// Requirements on tokens that do not depend on the issuer.
#[derive(Debug)]
pub(super) struct Expected {
    /// Accepted audiences.
    pub audiences: Vec<String>,
    /// Accepted signature algorithms.
    pub algorithms: Vec<String>,
}

/// Verifier of one issuer's tokens, once it was reached.
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
    /// Starts a verifier. A task asks the provider for its keys until it answers: must be called in a runtime.
    pub fn start(provider: Provider, expected: Arc<Expected>) -> Arc<Self> {
        let reached = watch::Sender::new(Reached::NotTried);
        let clock = provider.clock.clone();
        let verifier = Arc::new(Verifier { expected, keys: OnceLock::new(), reached, clock });
        let weak = Arc::downgrade(&verifier);
        tokio::spawn(async move {
            loop {
                let found = provider.discover().await;
                // The issuer is no longer configured.
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

    /// Waits until the issuer was reached.
    pub async fn healthy(&self) {
        // Cannot fail: the sender is a field of this value.
        let _ = self.reached.subscribe().wait_for(|reached| matches!(reached, Reached::Yes)).await;
    }

    /// Waits for the first attempt to reach the issuer; true if it succeeded.
    pub async fn tried(&self) -> bool {
        let mut reached = self.reached.subscribe();
        let tried = reached.wait_for(|reached| !matches!(reached, Reached::NotTried)).await;
        tried.is_ok_and(|reached| matches!(*reached, Reached::Yes))
    }

    /// Error of the last attempt to reach the issuer; `None` once it was reached.
    pub fn problem(&self) -> Option<String> {
        match &*self.reached.borrow() {
            Reached::NotTried => Some("is not initialized".to_owned()),
            Reached::No(error) => Some(format!("is not healthy: {error}")),
            Reached::Yes => None,
        }
    }

    /// Verified claims of a token. The caller has compared the issuer.
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

/// Checks that every distributed claim has a source.
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

/// Quoted list as Go prints it: `["a" "b"]`.
fn quoted(all: &[String]) -> String {
    let all: Vec<_> = all.iter().map(|one| quote(one)).collect();
    format!("[{}]", all.join(" "))
}
