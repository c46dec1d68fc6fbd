//! Cache of token authentications.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kevel_clock::{Clock, Moment, Stopwatch};
use kevel_component::future::Pending;
use kevel_server::authentication::{TokenAuthenticated, TokenAuthenticator};
use kevel_server::metrics::{Counter, Description, Family, Gauge, Histogram, Metrics};
use ring::hmac;
use tokio::sync::OnceCell;

/// Maximum number of cached tokens: twice the pods and nodes of a large cluster.
const MOST: usize = 32 * 1024;

/// Times to live of cached results.
#[derive(Clone, Copy, Debug)]
pub struct TokenCacheTtls {
    /// Authenticated tokens.
    pub success: Duration,
    /// Unknown tokens.
    pub failure: Duration,
    /// True if errors are cached like failures.
    pub errors: bool,
}

/// Authenticator that caches the results of another one. Concurrent requests with the same token share one
/// authentication.
pub struct TokenCache {
    inner: Arc<dyn TokenAuthenticator>,
    remembered: TokenCacheTtls,
    metrics: Arc<TokenCacheMetrics>,
    clock: Clock,
    /// Key of the hash, which keeps tokens out of memory and prevents crafted hash collisions.
    hash: hmac::Key,
    found: Mutex<HashMap<Key, Found>>,
    asking: Mutex<HashMap<Key, Arc<OnceCell<TokenAuthenticated>>>>,
}

type Key = [u8; 32];

struct Found {
    what: TokenAuthenticated,
    until: Moment,
}

impl std::fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenCache({:?})", self.remembered)
    }
}

impl TokenCache {
    /// Makes a cache with these times to live.
    pub fn new(
        inner: Arc<dyn TokenAuthenticator>,
        remembered: TokenCacheTtls,
        metrics: Arc<TokenCacheMetrics>,
        clock: &Clock,
    ) -> Result<Self, String> {
        let random = ring::rand::SystemRandom::new();
        let hash = hmac::Key::generate(hmac::HMAC_SHA256, &random);
        Ok(TokenCache {
            inner,
            remembered,
            metrics,
            clock: clock.clone(),
            hash: hash.map_err(|_| "no random numbers")?,
            found: Mutex::default(),
            asking: Mutex::default(),
        })
    }

    fn key(&self, token: &str, audiences: &[String]) -> Key {
        let mut context = hmac::Context::with_key(&self.hash);
        for text in std::iter::once(token).chain(audiences.iter().map(String::as_str)) {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_bytes());
        }
        let mut key = Key::default();
        key.copy_from_slice(context.sign().as_ref());
        key
    }

    fn turn(&self, key: Key) -> Turn<'_> {
        let cell = lock(&self.asking).entry(key).or_default().clone();
        Turn { cache: self, key, cell }
    }

    fn recall(&self, key: &Key) -> Option<TokenAuthenticated> {
        let found = lock(&self.found);
        let found = found.get(key).filter(|found| self.clock.moment() < found.until)?;
        Some(found.what.clone())
    }

    fn remember(&self, key: Key, what: &TokenAuthenticated) {
        let time = match what {
            Ok(Some(_)) => self.remembered.success,
            Err(_) if !self.remembered.errors => return,
            _ => self.remembered.failure,
        };
        if time.is_zero() {
            return;
        }
        let now = self.clock.moment();
        let mut found = lock(&self.found);
        if found.len() >= MOST {
            found.retain(|_, found| now < found.until);
        }
        if found.len() >= MOST {
            found.clear();
        }
        found.insert(key, Found { what: what.clone(), until: now + time });
    }
}

impl TokenAuthenticator for TokenCache {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        Box::pin(async move {
            let started = Stopwatch::start();
            let key = self.key(token, audiences);
            if let Some(found) = self.recall(&key) {
                self.metrics.asked("hit", started);
                return found;
            }
            let _waiting = self.metrics.active("blocked");
            let turn = self.turn(key);
            // If the request that authenticates is cancelled, the next waiting one takes over.
            let what = turn.cell.get_or_init(|| async {
                let _asking = self.metrics.active("in_flight");
                let what = self.inner.authenticate_token(token, audiences).await;
                self.metrics.fetched(what.is_ok());
                self.remember(key, &what);
                what
            });
            let what = what.await.clone();
            self.metrics.asked("miss", started);
            what
        })
    }
}

/// Participation of one request in a shared authentication.
struct Turn<'a> {
    cache: &'a TokenCache,
    key: Key,
    cell: Arc<OnceCell<TokenAuthenticated>>,
}

impl Drop for Turn<'_> {
    /// The last participant removes the entry: a client that disconnects must not cost memory.
    fn drop(&mut self) {
        let mut asking = lock(&self.cache.asking);
        let ours = asking.get(&self.key).is_some_and(|cell| Arc::ptr_eq(cell, &self.cell));
        // One reference of the map, one of this value.
        let last = Arc::strong_count(&self.cell) == 2;
        if ours && (last || self.cell.initialized()) {
            asking.remove(&self.key);
        }
    }
}

/// Metrics of token caches.
#[derive(Debug)]
pub struct TokenCacheMetrics {
    requests: Arc<Family<Counter>>,
    seconds: Arc<Family<Histogram>>,
    fetches: Arc<Family<Counter>>,
    active: Arc<Family<Gauge>>,
}

/// Histogram buckets in seconds.
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl TokenCacheMetrics {
    /// Registers the metrics with the reference's names, for all caches of a server.
    pub fn new(metrics: &Metrics) -> Self {
        let described = |name, help| Description { name, help, labels: &["status"] };
        TokenCacheMetrics {
            requests: metrics.counter(described(
                "authentication_token_cache_request_total",
                "[ALPHA] Token lookups, by cache hit or miss.",
            )),
            seconds: metrics.histogram(
                described(
                    "authentication_token_cache_request_duration_seconds",
                    "[ALPHA] Seconds of a token lookup, by cache hit or miss.",
                ),
                SECONDS,
            ),
            fetches: metrics.counter(described(
                "authentication_token_cache_fetch_total",
                "[ALPHA] Token lookups that were not cached, by result.",
            )),
            active: metrics.gauge(described(
                "authentication_token_cache_active_fetch_count",
                "[ALPHA] Token lookups in progress.",
            )),
        }
    }

    fn asked(&self, status: &str, started: Stopwatch) {
        self.requests.with(&[status]).increment();
        self.seconds.with(&[status]).observe(started.elapsed().as_secs_f64());
    }

    fn fetched(&self, well: bool) {
        self.fetches.with(&[if well { "ok" } else { "error" }]).increment();
    }

    fn active(&self, status: &str) -> Active {
        let gauge = self.active.with(&[status]);
        gauge.add(1);
        Active(gauge)
    }
}

/// Gauge increment that is undone on drop.
struct Active(Arc<Gauge>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use kevel_clock::ManualClock;
    use kevel_registry::user::User;
    use kevel_server::authentication::{AuthError, Known};

    use super::*;

    /// Authenticates tokens that begin with `good`; fails for those that begin with `bad`.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl TokenAuthenticator for Counting {
        fn authenticate_token<'a>(
            &'a self,
            token: &'a str,
            audiences: &'a [String],
        ) -> Pending<'a, TokenAuthenticated> {
            Box::pin(async move {
                self.0.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                let user = User { name: token.to_owned(), ..User::default() };
                match token.get(..4) {
                    Some("good") => Ok(Some(Arc::new(Known::new(user, audiences.to_vec())))),
                    Some("bad ") => Err(AuthError("no".to_owned())),
                    _ => Ok(None),
                }
            })
        }
    }

    fn metrics() -> Arc<TokenCacheMetrics> {
        Arc::new(TokenCacheMetrics::new(&Metrics::default()))
    }

    #[tokio::test]
    async fn an_answer_is_good_for_its_time() {
        let inner = Arc::new(Counting::default());
        let remembered = TokenCacheTtls {
            success: Duration::from_secs(10),
            failure: Duration::from_secs(5),
            errors: false,
        };
        let clock = ManualClock::at_present();
        let cache = TokenCache::new(inner.clone(), remembered, metrics(), &clock.clock()).unwrap();
        let [one, two] = [["a".to_owned()], ["b".to_owned()]];
        // Token, audiences, seconds to wait before, total authentications after.
        for (token, audiences, wait, asked) in [
            ("good", &one, 0, 1),
            ("good", &one, 9, 1),
            ("good", &two, 0, 2),
            ("good", &one, 1, 3),
            ("none", &one, 0, 4),
            ("none", &one, 4, 4),
            ("none", &one, 1, 5),
            ("bad ", &one, 0, 6),
            ("bad ", &one, 0, 7),
        ] {
            clock.advance(Duration::from_secs(wait));
            let found = cache.authenticate_token(token, audiences).await;
            assert_eq!(found.is_ok_and(|known| known.is_some()), token == "good");
            assert_eq!(inner.0.load(Ordering::Relaxed), asked, "{token}");
        }
    }

    #[tokio::test]
    async fn concurrent_lookups_of_a_token_share_an_answer() {
        let inner = Arc::new(Counting::default());
        let never =
            TokenCacheTtls { success: Duration::ZERO, failure: Duration::ZERO, errors: false };
        let cache = TokenCache::new(inner.clone(), never, metrics(), &Clock::system()).unwrap();
        let ask = || cache.authenticate_token("good", &[]);
        let (a, b, c) = tokio::join!(ask(), ask(), ask());
        assert!(a.unwrap().is_some() && b.unwrap().is_some() && c.unwrap().is_some());
        assert_eq!(inner.0.load(Ordering::Relaxed), 1);
        assert!(lock(&cache.asking).is_empty());
        // A cancelled request leaves nothing behind either.
        let mut gone = ask();
        let poll =
            |context: &mut Context<'_>| Poll::Ready(gone.as_mut().poll(context).is_pending());
        assert!(std::future::poll_fn(poll).await);
        assert_eq!(lock(&cache.asking).len(), 1);
        drop(gone);
        assert!(lock(&cache.asking).is_empty());
    }
}
