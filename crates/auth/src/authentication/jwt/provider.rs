//! What an issuer says about itself, and its keys (OpenID Connect Discovery 1.0).

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, StatusCode};
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_server::webhook::{Client, Endpoint, REQUEST_TIMEOUT};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::jose::PublicKey;

const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// How long before their time keys are no longer taken for fresh.
const EXPIRY_DELTA: Duration = Duration::from_secs(30);
/// For how long keys are taken for fresh at most, whatever the issuer says.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The most keys that a set may have.
const MOST_KEYS: usize = 256;

/// Where an issuer is, and who vouches for it.
#[derive(Clone, Debug)]
pub(super) struct Location {
    pub issuer: String,
    /// Empty if it is below the issuer's URL.
    pub discovery_url: String,
    /// The system's authorities if empty.
    pub certificate_authority: String,
}

/// The keys of an issuer, fetched again when a token was signed with one that is not known.
#[derive(Debug)]
pub(super) struct RemoteKeys {
    client: Client,
    path: String,
    current: ArcSwap<Keys>,
    fetching: Mutex<()>,
}

#[derive(Debug)]
struct Keys {
    keys: Vec<PublicKey>,
    fresh_until: Instant,
}

impl RemoteKeys {
    /// Asks an issuer where its keys are.
    pub async fn discover(location: &Location) -> Result<Self, String> {
        let Location { issuer, discovery_url, certificate_authority } = location;
        let url = match discovery_url.as_str() {
            "" => format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/')),
            url => url.to_owned(),
        };
        let (client, path) = client(&url, certificate_authority)?;
        let (provider, _) = get(&client, &path).await?;
        let said = provider.str_at(&["issuer"]);
        if said != issuer {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {issuer:?} \
                 got {said:?}"
            ));
        }
        let (client, path) = match provider.str_at(&["jwks_uri"]) {
            "" => return Err("provider did not return JWKS URL".to_owned()),
            uri => self::client(uri, certificate_authority)?,
        };
        let current = Keys { keys: Vec::new(), fresh_until: Instant::now() };
        let current = ArcSwap::from_pointee(current);
        Ok(RemoteKeys { client, path, current, fetching: Mutex::default() })
    }

    /// Whether one of the keys does it. Keys that are not fresh are fetched before the answer is no.
    pub async fn any(&self, does: impl Fn(&PublicKey) -> bool) -> Result<bool, String> {
        let known = self.current.load_full();
        if known.keys.iter().any(&does) {
            return Ok(true);
        }
        if Instant::now() + EXPIRY_DELTA < known.fresh_until {
            return Ok(false);
        }
        let fetched = self.fetch(&known).await?;
        Ok(fetched.keys.iter().any(does))
    }

    /// Fetches the keys, unless somebody else just did.
    async fn fetch(&self, known: &Arc<Keys>) -> Result<Arc<Keys>, String> {
        let _turn = self.fetching.lock().await;
        let current = self.current.load_full();
        if !Arc::ptr_eq(known, &current) {
            return Ok(current);
        }
        let set = get(&self.client, &self.path).await;
        let (set, headers) = set.map_err(|error| format!("fetching keys oidc: {error}"))?;
        let keys = set.at(&["keys"]).and_then(Value::as_list).unwrap_or_default();
        let keys = keys.iter().take(MOST_KEYS).filter_map(PublicKey::from_jwk).collect();
        let fresh_until = Instant::now() + max_age(&headers);
        let keys = Arc::new(Keys { keys, fresh_until });
        self.current.store(keys.clone());
        Ok(keys)
    }
}

/// A client of a URL's server, and the URL's path.
fn client(url: &str, certificate_authority: &str) -> Result<(Client, String), String> {
    let rest = url.strip_prefix("https://").ok_or("URL scheme must be https")?;
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    let ca = (!certificate_authority.is_empty()).then(|| certificate_authority.as_bytes().to_vec());
    let endpoint = Endpoint { url: format!("https://{host}"), ca, ..Endpoint::default() };
    Ok((Client::new(endpoint)?, path.to_owned()))
}

async fn get(client: &Client, path: &str) -> Result<(Value, HeaderMap), String> {
    let answer = client.get(path, REQUEST_TIMEOUT).await.map_err(|error| error.to_string())?;
    if answer.status() != StatusCode::OK {
        return Err(answer.status().to_string());
    }
    let (parts, body) = answer.into_parts();
    let decoded = json::decode_any(&body, json::Unknown::Ignore);
    let value = decoded.map_err(|error| format!("could not unmarshal as JSON: {error}"))?.value;
    Ok((value, parts.headers))
}

/// For how long an answer may be kept.
fn max_age(headers: &HeaderMap) -> Duration {
    let said = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let said: Vec<_> = said.flat_map(|value| value.split(',')).map(str::trim).collect();
    if said.iter().any(|one| matches!(*one, "no-store" | "no-cache")) {
        return Duration::ZERO;
    }
    let seconds = said.iter().find_map(|one| one.strip_prefix("max-age=")?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0)).min(LONGEST)
}
