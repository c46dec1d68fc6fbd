//! External signer of tokens, on a local socket (gRPC service `v1.ExternalJWTSigner`). This server then has no
//! private keys.

mod metrics;
mod proto;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_clock::{Clock, Moment, Stopwatch};
use kevel_codec::{base64, json};
use kevel_server::grpc::{UnixService, code_of, shown};
use kevel_server::metrics::Metrics;
use prost::Message;
use tokio::sync::Mutex;
use tonic::Status;

use self::metrics::SignerMetrics;
use crate::jose::PublicKey;

const SIGN: &str = "/v1.ExternalJWTSigner/Sign";
const FETCH_KEYS: &str = "/v1.ExternalJWTSigner/FetchKeys";
const METADATA: &str = "/v1.ExternalJWTSigner/Metadata";

/// Timeout for fetching keys and for signing.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for the signer's metadata.
const METADATA_PATIENCE: Duration = Duration::from_secs(10);
/// Delay after a failed fetch of keys.
const FALLBACK_REFRESH: Duration = Duration::from_secs(10);

/// Maximum length of a key ID.
const LONGEST_ID: usize = 1024;
/// Signature algorithms that this server verifies.
const ALGORITHMS: [&str; 4] = ["RS256", "ES256", "ES384", "ES512"];

/// Client of the external signer.
#[derive(Debug)]
pub struct ExternalSigner {
    service: UnixService,
    keys: ArcSwap<Fetched>,
    fetching: Mutex<()>,
    metrics: SignerMetrics,
    clock: Clock,
}

/// Fetched verification keys.
#[derive(Debug)]
struct Fetched {
    keys: Vec<Key>,
    refresh_at: Moment,
}

#[derive(Debug)]
struct Key {
    public: PublicKey,
    /// True for keys that only verify old tokens and are not in OIDC discovery.
    excluded: bool,
}

impl ExternalSigner {
    /// Connects to a socket (`/path`, or `@name` for an abstract one), waits until the keys are fetched, and keeps
    /// them fresh from then on.
    pub async fn connect(
        socket: &str,
        metrics: &Metrics,
        clock: &Clock,
    ) -> Result<Arc<Self>, String> {
        let service = UnixService::new(socket)
            .map_err(|error| format!("while dialing grpc socket at {}: {error}", quote(socket)))?;
        let nothing = Fetched { keys: Vec::new(), refresh_at: clock.moment() };
        let signer = Arc::new(ExternalSigner {
            service,
            keys: ArcSwap::from_pointee(nothing),
            fetching: Mutex::default(),
            metrics: SignerMetrics::new(metrics),
            clock: clock.clone(),
        });
        let nothing = signer.keys.load_full();
        signer.fetch(&nothing).await.map_err(|error| {
            format!(
                "while initially filling key cache: while performing initial cache fill: {error}"
            )
        })?;
        tokio::spawn(refresh(Arc::downgrade(&signer)));
        Ok(signer)
    }

    /// Maximum validity in seconds of tokens that the signer signs.
    pub async fn max_expiration(&self) -> Result<i64, String> {
        let said = self.call(METADATA, proto::MetadataRequest {}, METADATA_PATIENCE).await;
        let said: proto::MetadataResponse = said.map_err(|status| shown(&status))?;
        Ok(said.max_token_expiration_seconds)
    }

    /// Signs a token with these claims.
    pub(super) async fn sign(&self, claims: &Value) -> Result<String, String> {
        let mut text = Vec::new();
        json::encode_any(claims, &mut text);
        let claims = base64::encode_url(&text);
        let request = proto::SignJwtRequest { claims: claims.to_string() };
        let signed = self.call(SIGN, request, PATIENCE).await;
        let code = code_of(signed.as_ref().err());
        let token = self.assemble(&claims, signed).await;
        self.metrics.signed(if token.is_err() && code == "OK" { NOT_GRPC } else { code });
        token
    }

    async fn assemble(
        &self,
        claims: &str,
        signed: Result<proto::SignJwtResponse, Status>,
    ) -> Result<String, String> {
        let proto::SignJwtResponse { header, signature } =
            signed.map_err(|status| format!("while signing jwt: {}", shown(&status)))?;
        let checked = self.check_header(&header).await;
        checked.map_err(|error| format!("while validating header: {error}"))?;
        if signature.is_empty() {
            return Err("empty signature returned".to_owned());
        }
        Ok(format!("{header}.{claims}.{signature}"))
    }

    /// Checks that a header has only the fields and values that this server verifies.
    async fn check_header(&self, header: &str) -> Result<(), String> {
        let text =
            base64::decode_url(header).ok_or("while unwrapping header: illegal base64 data")?;
        let header = json::decode_any(&text, json::Unknown::Report)
            .map_err(|error| format!("while parsing header JSON: {error}"))?
            .value;
        let fields = header.as_map().ok_or("while parsing header JSON: not an object")?;
        let known = |name: &str| ["alg", "kid", "typ"].contains(&name);
        if let Some((name, _)) = fields.iter().find(|(name, _)| !known(name)) {
            return Err(format!("while parsing header JSON: json: unknown field {}", quote(name)));
        }
        let (kid, algorithm) = (header.str_at(&["kid"]), header.str_at(&["alg"]));
        if header.str_at(&["typ"]) != "JWT" {
            return Err("bad type".to_owned());
        }
        if kid.is_empty() {
            return Err("key id missing".to_owned());
        }
        if kid.len() > LONGEST_ID {
            return Err("key id longer than 1 kb".to_owned());
        }
        if !ALGORITHMS.contains(&algorithm) {
            return Err(format!("bad signing algorithm {}", quote(algorithm)));
        }
        let keys = self.with_key(kid).await;
        if keys.keys.iter().any(|key| key.public.id() == kid && key.excluded) {
            return Err(format!(
                "key used for signing JWT (kid: {kid}) is excluded from OIDC discovery docs"
            ));
        }
        Ok(())
    }

    /// True if a key with this ID (any key if it is empty) satisfies `does`; `None` if there is no such key.
    pub(super) async fn any(&self, id: &str, does: impl Fn(&PublicKey) -> bool) -> Option<bool> {
        let fetched = self.with_key(id).await;
        let named = |key: &&Key| id.is_empty() || key.public.id() == id;
        let mut keys = fetched.keys.iter().filter(named).peekable();
        keys.peek()?;
        Some(keys.any(|key| does(&key.public)))
    }

    /// Keys for OIDC discovery.
    pub(super) fn shown(&self) -> Vec<PublicKey> {
        let fetched = self.keys.load();
        fetched.keys.iter().filter(|key| !key.excluded).map(|key| key.public.clone()).collect()
    }

    /// Time until the keys must be refreshed.
    pub(super) fn max_age(&self) -> Duration {
        self.keys.load().refresh_at.saturating_duration_since(self.clock.moment())
    }

    /// Keys, fetched again if none of them has this ID.
    async fn with_key(&self, id: &str) -> Arc<Fetched> {
        let known = self.keys.load_full();
        if id.is_empty() || known.keys.iter().any(|key| key.public.id() == id) {
            return known;
        }
        match self.fetch(&known).await {
            Ok(fetched) => fetched,
            Err(error) => {
                tracing::error!("Error while syncing keys: {error}");
                known
            }
        }
    }

    /// Fetches the keys, unless another task has done so just now.
    async fn fetch(&self, known: &Arc<Fetched>) -> Result<Arc<Fetched>, String> {
        let _turn = self.fetching.lock().await;
        let current = self.keys.load_full();
        if !Arc::ptr_eq(known, &current) {
            return Ok(current);
        }
        let said: Result<proto::FetchKeysResponse, _> =
            self.call(FETCH_KEYS, proto::FetchKeysRequest {}, PATIENCE).await;
        let code = code_of(said.as_ref().err());
        let fetched = said
            .map_err(|status| {
                format!("while getting externally supported jwt signing keys: {}", shown(&status))
            })
            .and_then(|said| Ok((said.data_timestamp.clone(), read(said, self.clock.moment())?)));
        self.metrics.fetched(if fetched.is_err() && code == "OK" { NOT_GRPC } else { code });
        let (timestamp, fetched) =
            fetched.map_err(|error| format!("while fetching token verification keys: {error}"))?;
        self.metrics.data_as_of(timestamp.map_or(0, |timestamp| timestamp.seconds));
        let fetched = Arc::new(fetched);
        self.keys.store(fetched.clone());
        Ok(fetched)
    }

    /// Calls the signer, and waits for it while it is unavailable.
    async fn call<Q, A>(
        &self,
        path: &'static str,
        request: Q,
        patience: Duration,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let started = Stopwatch::start();
        let answered = self.service.call(path, request, patience).await;
        self.metrics.called(path, code_of(answered.as_ref().err()), started.elapsed());
        answered
    }
}

/// Fetches the keys whenever they are due, until the signer is dropped.
async fn refresh(signer: std::sync::Weak<ExternalSigner>) {
    let mut pause = None;
    loop {
        let due = |signer: Arc<ExternalSigner>| {
            (signer.clock.clone(), pause.take().unwrap_or(signer.max_age()))
        };
        let Some((clock, due)) = signer.upgrade().map(due) else { return };
        clock.sleep(due).await;
        let Some(signer) = signer.upgrade() else { return };
        let known = signer.keys.load_full();
        if let Err(error) = signer.fetch(&known).await {
            tracing::error!(
                "when syncing supported public keys(Stale set of keys will be supported): {error}"
            );
            pause = Some(FALLBACK_REFRESH);
        }
    }
}

/// Decodes fetched keys; an error if any is invalid.
fn read(said: proto::FetchKeysResponse, now: Moment) -> Result<Fetched, String> {
    let seconds = said.refresh_hint_seconds;
    let refresh = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    let refresh = refresh.ok_or_else(|| format!("found invalid refresh hint ({seconds}s)"))?;
    if said.keys.is_empty() {
        return Err("found no keys".to_owned());
    }
    if said.data_timestamp.is_none() {
        return Err("invalid data timestamp: invalid nil Timestamp".to_owned());
    }
    let key = |key: proto::Key| {
        if key.key_id.is_empty() || key.key_id.len() > LONGEST_ID {
            return Err(format!("found invalid public key id {}", quote(&key.key_id)));
        }
        if key.key.is_empty() {
            return Err("found empty public key".to_owned());
        }
        let public = PublicKey::from_spki(&key.key);
        let public = public.ok_or("while parsing external public keys: unknown public key")?;
        let excluded = key.exclude_from_oidc_discovery;
        Ok(Key { public: public.with_id(&key.key_id), excluded })
    };
    let keys = said.keys.into_iter().map(key).collect::<Result<_, String>>()?;
    // Avoids an overflow of the clock.
    let refresh = Duration::from_secs(refresh.min(u64::from(u32::MAX)));
    Ok(Fetched { keys, refresh_at: now + refresh })
}

/// Metric label of failures without a gRPC status.
const NOT_GRPC: &str = "unknown-non-grpc";
