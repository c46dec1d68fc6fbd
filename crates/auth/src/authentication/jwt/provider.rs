//! Discovery of an issuer and its key set (OpenID Connect Discovery 1.0).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, Response, StatusCode};
use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_clock::{Clock, Moment};
use kevel_codec::json;
use kevel_compute::Metered;
use kevel_server::webhook::{Documents, REQUEST_TIMEOUT};
use tokio::sync::watch;

use super::metrics::IssuerMetrics;
use crate::jose::PublicKey;

const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// Time before their expiry at which keys no longer count as fresh.
const EXPIRY_DELTA: Duration = Duration::from_secs(30);
/// Maximum time for which keys count as fresh, whatever the issuer's headers allow.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of keys in a set.
const MOST_KEYS: usize = 256;

/// An issuer and its location.
#[derive(Debug)]
pub(super) struct Provider {
    pub issuer: String,
    /// URL of the discovery document; empty if it is below the issuer's URL.
    pub discovery_url: String,
    pub documents: Arc<Documents>,
    /// Metrics of key fetches.
    pub metrics: Option<IssuerMetrics>,
    pub clock: Clock,
}

/// Keys of an issuer, fetched again when a token was signed with an unknown one.
#[derive(Debug)]
pub(super) struct RemoteKeys(Arc<KeySet>);

#[derive(Debug)]
struct KeySet {
    documents: Arc<Documents>,
    url: String,
    metrics: Option<IssuerMetrics>,
    clock: Clock,
    current: ArcSwap<Keys>,
    /// Fetch in progress, shared by all requests that need keys meanwhile.
    fetching: Mutex<Option<Fetch>>,
}

/// Result of a fetch, once it has ended.
type Fetch = watch::Receiver<Option<Result<Arc<Keys>, String>>>;

#[derive(Debug)]
struct Keys {
    keys: Vec<PublicKey>,
    fresh_until: Moment,
}

impl Provider {
    /// Reads the discovery document to find the issuer's keys.
    pub async fn discover(&self) -> Result<RemoteKeys, String> {
        let Provider { issuer, discovery_url, documents, metrics, clock } = self;
        let url = match discovery_url.as_str() {
            "" => format!("{}{WELL_KNOWN}", issuer.strip_suffix('/').unwrap_or(issuer)),
            url => url.to_owned(),
        };
        let answer = get(documents, &url).await?;
        let provider = decode(&answer)?;
        let said = provider.str_at(&["issuer"]);
        if said != issuer {
            let (issuer, said) = (quote(issuer), quote(said));
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {issuer} got \
                 {said}"
            ));
        }
        let url = match provider.str_at(&["jwks_uri"]) {
            "" => return Err("provider did not return JWKS URL".to_owned()),
            uri => uri.to_owned(),
        };
        let current = Keys { keys: Vec::new(), fresh_until: clock.moment() };
        Ok(RemoteKeys(Arc::new(KeySet {
            documents: documents.clone(),
            url,
            metrics: metrics.clone(),
            clock: clock.clone(),
            current: ArcSwap::from_pointee(current),
            fetching: Mutex::default(),
        })))
    }
}

impl RemoteKeys {
    /// True if one of the keys satisfies `does`. Keys that are not fresh are fetched before the answer is false.
    pub async fn any(&self, does: impl Fn(&PublicKey) -> bool) -> Result<bool, String> {
        let known = self.0.current.load_full();
        if known.keys.iter().any(&does) {
            return Ok(true);
        }
        if self.0.clock.moment() + EXPIRY_DELTA < known.fresh_until {
            return Ok(false);
        }
        let fetched = self.0.fetched(&known).await?;
        Ok(fetched.keys.iter().any(does))
    }
}

impl KeySet {
    /// Keys newer than those known. One fetch is for all requests that wait, also if it fails: an issuer that
    /// hangs would let each of them wait for those before it. It goes on when the requests are gone.
    async fn fetched(self: &Arc<Self>, known: &Arc<Keys>) -> Result<Arc<Keys>, String> {
        let mut fetch = {
            let mut fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
            let current = self.current.load_full();
            if !Arc::ptr_eq(known, &current) {
                return Ok(current);
            }
            // One whose task has died says nothing any more.
            let under_way = fetching.take().filter(|fetch| fetch.has_changed().is_ok());
            fetching.insert(under_way.unwrap_or_else(|| self.begin())).clone()
        };
        match fetch.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(result)) => result.clone(),
            _ => Err("fetching keys oidc: the fetch was given up".to_owned()),
        }
    }

    fn begin(self: &Arc<Self>) -> Fetch {
        let (done, fetch) = watch::channel(None);
        let keys = self.clone();
        let fetching = async move {
            let result = keys.fetch().await;
            *keys.fetching.lock().unwrap_or_else(PoisonError::into_inner) = None;
            done.send_replace(Some(result));
        };
        tokio::spawn(Metered::task(Box::pin(fetching), "oidc-keys"));
        fetch
    }

    async fn fetch(&self) -> Result<Arc<Keys>, String> {
        let answer = get(&self.documents, &self.url).await;
        let set = answer.and_then(|answer| Ok((decode(&answer)?, answer)));
        if let Some(metrics) = &self.metrics {
            metrics.fetched(set.as_ref().ok().map(|(_, answer)| &answer.body()[..]));
        }
        let (set, answer) = set.map_err(|error| format!("fetching keys oidc: {error}"))?;
        let keys = set.at(&["keys"]).and_then(Value::as_list).unwrap_or_default();
        let keys = keys.iter().take(MOST_KEYS).filter_map(PublicKey::from_jwk).collect();
        let fresh_until = self.clock.moment() + max_age(answer.headers());
        let keys = Arc::new(Keys { keys, fresh_until });
        self.current.store(keys.clone());
        Ok(keys)
    }
}

async fn get(documents: &Documents, url: &str) -> Result<Response<Bytes>, String> {
    let answer = documents.get(url, None, REQUEST_TIMEOUT).await;
    let answer = answer.map_err(|error| error.to_string())?;
    match answer.status() {
        StatusCode::OK => Ok(answer),
        status => Err(status.to_string()),
    }
}

fn decode(answer: &Response<Bytes>) -> Result<Value, String> {
    let decoded = json::decode_any(answer.body(), json::Unknown::Ignore);
    decoded
        .map(|decoded| decoded.value)
        .map_err(|error| format!("could not unmarshal as JSON: {error}"))
}

/// Cache time of a response.
fn max_age(headers: &HeaderMap) -> Duration {
    let said = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let said: Vec<_> = said.flat_map(|value| value.split(',')).map(str::trim).collect();
    if said.iter().any(|one| matches!(*one, "no-store" | "no-cache")) {
        return Duration::ZERO;
    }
    let seconds = said.iter().find_map(|one| one.strip_prefix("max-age=")?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use kevel_server::egress::Dialer;
    use tokio::net::TcpListener;

    use super::*;

    /// Each waited for the fetches before its own: the eighth for as long as eight of them take.
    #[tokio::test]
    async fn requests_that_wait_share_a_failed_fetch_of_keys() {
        const REQUESTS: usize = 8;
        let issuer = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/keys", issuer.local_addr().unwrap());
        let documents = Arc::new(Documents::new(None, Dialer::default()).unwrap());
        let clock = Clock::system();
        let none = Keys { keys: Vec::new(), fresh_until: clock.moment() };
        let (metrics, current) = (None, ArcSwap::from_pointee(none));
        let set = KeySet { documents, url, metrics, clock, current, fetching: Mutex::default() };
        let keys = Arc::new(RemoteKeys(Arc::new(set)));
        // In one thread: each of them waits before the next begins.
        let ask = || {
            let keys = keys.clone();
            tokio::spawn(async move { keys.any(|_| true).await })
        };
        let asking: Vec<_> = (0..REQUESTS).map(|_| ask()).collect();
        // The first connection is taken when all of them wait for what comes of it.
        drop(issuer.accept().await.unwrap());
        let all = async {
            for one in asking {
                assert!(one.await.unwrap().is_err());
            }
        };
        tokio::select! {
            () = all => {}
            _ = issuer.accept() => panic!("the issuer was asked again"),
        }
    }
}
