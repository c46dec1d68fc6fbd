//! KMS plug-ins on a local socket. This module is v2; [`v1`] is apart.
//!
//! The plug-in encrypts a seed once; the server derives the keys of values from the seed (upstream:
//! `EnvelopeTransformer` of kmsv2). Each value is stored with the encrypted seed, so that the plug-in can decrypt it
//! again. Decrypted seeds are cached: reads need the plug-in once for each seed, writes never.
//!
//! The plug-in's status is polled ([`probe`]): a new key ID leads to a new seed, and makes values written with the old
//! one stale. While a plug-in does not answer, its seed is used for a limited time; then writes fail, so that a key
//! rotation that did not happen is noticed.

mod object;
mod probe;
mod proto;
mod proto_v1;
mod seed;
#[cfg(test)]
mod tests;
pub(crate) mod v1;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use kevel_api::quote::quote;
use kevel_api::time::Time;
use kevel_api::url::Url;
use kevel_clock::{Clock, Moment, Stopwatch};
use kevel_server::config_file::sha256;
use kevel_server::grpc::{UnixService, code_of, shown};
use kevel_trace::{TraceSpan, text};
use prost::Message;
use tonic::{Code, Status};

use self::probe::Last;
use self::proto::EncryptedObject;
use self::seed::Seed;
use crate::config::KmsConfiguration;
use crate::metrics::EncryptionMetrics;
use crate::transformer::{Cipher, Context, TransformError, Transformed, aes_gcm};

const STATUS: &str = "/v2.KeyManagementService/Status";
const ENCRYPT: &str = "/v2.KeyManagementService/Encrypt";
const DECRYPT: &str = "/v2.KeyManagementService/Decrypt";

/// Intervals of status calls, and validity of their results. The reference's values, except in tests.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Interval of status calls to a healthy plug-in.
    pub positive_interval: Duration,
    /// Interval of status calls to an unhealthy plug-in.
    pub negative_interval: Duration,
    /// Time for which a seed is used for writes without a successful status call.
    pub write_source_max_ttl: Duration,
    /// Time for which a successful health check is cached.
    pub healthz_positive_ttl: Duration,
    /// Time for which a failed health check is cached.
    pub healthz_negative_ttl: Duration,
    /// Interval at which the configuration file is checked.
    pub look: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            positive_interval: Duration::from_secs(60),
            negative_interval: Duration::from_secs(10),
            write_source_max_ttl: Duration::from_secs(180),
            healthz_positive_ttl: Duration::from_secs(20),
            healthz_negative_ttl: Duration::from_secs(3),
            look: Duration::from_secs(5),
        }
    }
}

/// Time for which a decrypted seed is cached that is not used for writes. There is one for each server start since all
/// values were written last: few.
const SEED_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// A plug-in of either version.
#[derive(Clone, Debug)]
pub(crate) enum Kms {
    /// Encrypts the key of every value.
    V1(Arc<v1::Plugin>),
    /// Encrypts a seed.
    V2(Arc<Plugin>),
}

impl Kms {
    /// Health of the plug-in.
    pub async fn check(&self) -> Result<(), String> {
        match self {
            Kms::V1(plugin) => plugin.check().await,
            Kms::V2(plugin) => plugin.check().await,
        }
    }

    /// First call of a v2 plug-in, whose key is needed before the first write.
    pub async fn start(&self) {
        match self {
            Kms::V1(_) => {}
            Kms::V2(plugin) => plugin.start().await,
        }
    }

    /// Appends the encrypted value.
    pub async fn seal(
        &self,
        plain: &[u8],
        context: Context<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        match self {
            Kms::V1(plugin) => plugin.seal(plain, context, out).await,
            Kms::V2(plugin) => plugin.seal(plain, context, out),
        }
    }

    /// Decrypts a value.
    pub async fn open(
        &self,
        stored: &[u8],
        context: Context<'_>,
    ) -> Result<Transformed, TransformError> {
        match self {
            Kms::V1(plugin) => plugin.open(stored, context).await,
            Kms::V2(plugin) => plugin.open(stored, context).await,
        }
    }
}

/// A v2 plug-in.
pub(crate) struct Plugin {
    name: String,
    service: UnixService,
    timeout: Duration,
    timing: Timing,
    /// State for writes, once the plug-in has encrypted a seed.
    state: ArcSwapOption<State>,
    last: tokio::sync::Mutex<Last>,
    /// Cache of decrypted sources, by [`EncryptedObject::source_key`].
    sources: Mutex<HashMap<[u8; 32], Kept>>,
    metrics: Arc<EncryptionMetrics>,
    /// Hash of the server's ID.
    server: String,
    clock: Clock,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plugin({})", self.name)
    }
}

/// State for writes.
struct State {
    source: Arc<DecryptedSeed>,
    /// Metadata stored with every value, needed to decrypt it.
    object: EncryptedObject,
    source_key: [u8; 32],
    expires: Moment,
    expires_at: Time,
}

/// A decrypted seed, or key of an old value.
struct DecryptedSeed {
    cipher: Box<dyn Cipher>,
    /// Hash of the plug-in's key ID, for metrics.
    key_id_hash: String,
}

struct Kept {
    source: Arc<DecryptedSeed>,
    until: Moment,
}

impl Plugin {
    /// A plug-in, which is not called yet. Must be called in a runtime.
    pub fn new(
        config: &KmsConfiguration,
        timing: Timing,
        server_id: &str,
        metrics: Arc<EncryptionMetrics>,
        clock: &Clock,
    ) -> Result<Self, String> {
        let service = socket(&config.endpoint).and_then(|socket| UnixService::new(&socket));
        let service = service.map_err(|error| {
            let name = quote(&config.name);
            format!("could not configure KMSv2-Plugin's probe {name}, error: {error}")
        })?;
        Ok(Plugin {
            name: config.name.clone(),
            service,
            timeout: timeout_of(config),
            timing,
            state: ArcSwapOption::empty(),
            last: tokio::sync::Mutex::default(),
            sources: Mutex::default(),
            metrics,
            server: sha256(server_id.as_bytes()),
            clock: clock.clone(),
        })
    }

    /// Appends the encrypted value.
    pub fn seal(
        &self,
        plain: &[u8],
        context: Context<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        let span = self.span("TransformToStorage with envelopeTransformer");
        let state = self.state.load();
        let state = state.as_deref().ok_or_else(not_given)?;
        state.check_writable(&self.clock).map_err(unavailable)?;
        self.keep(state.source_key, &state.source);
        let mut object = state.object.clone();
        span.event("About to encrypt data using DEK");
        let sealed = state.source.cipher.seal(plain, context.key, &mut object.encrypted_data);
        sealed.map_err(|why| failed(&span, "Data encryption failed", why))?;
        span.event("Data encryption succeeded");
        let (key_id, server) = (&state.source.key_id_hash, &self.server);
        self.metrics.used_key("to_storage", &self.name, key_id, server);
        span.event("About to encode encrypted object");
        let encoded = object.encode(out).map_err(|error| error.to_string());
        encoded.map_err(|why| failed(&span, "Encoding encrypted object failed", why))?;
        span.event("Encoded encrypted object");
        Ok(())
    }

    /// Decrypts a value. The plug-in is called if its seed is not cached.
    pub async fn open(
        &self,
        stored: &[u8],
        context: Context<'_>,
    ) -> Result<Transformed, TransformError> {
        let span = self.span("TransformFromStorage with envelopeTransformer");
        span.event("About to decode encrypted object");
        let object = EncryptedObject::decode(stored)
            .map_err(|_| "proto: cannot parse invalid wire-format data".to_owned());
        let object = object.and_then(|object| object::check(&object).map(|()| object));
        let object =
            object.map_err(|why| failed(&span, "Decoding encrypted object failed", why))?;
        span.event("Decoded encrypted object");
        // Staleness depends on the plug-in's present key ID.
        let stale = {
            let state = self.state.load();
            let now = &state.as_deref().ok_or_else(not_given)?.object;
            object.key_id != now.key_id
                || object.encrypted_dek_source_type != now.encrypted_dek_source_type
        };
        let source = span.scope(self.source(&object)).await?;
        let (key_id, server) = (&source.key_id_hash, &self.server);
        self.metrics.used_key("from_storage", &self.name, key_id, server);
        span.event("About to decrypt data using DEK");
        let plain = source.cipher.open(&object.encrypted_data, context.key);
        let plain = plain.map_err(|why| failed(&span, "Data decryption failed", why))?;
        span.event("Data decryption succeeded");
        let value = plain.into();
        Ok(Transformed { value, stale })
    }

    /// Starts the span of a value's encryption or decryption.
    fn span(&self, name: &'static str) -> TraceSpan {
        kevel_trace::start(name, || vec![text("transformer.provider.name", self.name.as_str())])
    }

    /// Seed of a value's key: cached, or decrypted by the plug-in.
    async fn source(&self, object: &EncryptedObject) -> Result<Arc<DecryptedSeed>, TransformError> {
        let source_key = object.source_key();
        if let Some(kept) = self.lock().get(&source_key) {
            return Ok(kept.source.clone());
        }
        self.metrics.missed();
        kevel_trace::event("About to decrypt DEK using remote service");
        let request = proto::DecryptRequest {
            ciphertext: object.encrypted_dek_source.clone(),
            uid: uuid::Uuid::new_v4().to_string(),
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        };
        let answer: proto::DecryptResponse =
            self.call(DECRYPT, request).await.map_err(|status| {
                kevel_trace::event("DEK decryption failed");
                failed_decryption(&status)
            })?;
        kevel_trace::event("DEK decryption succeeded");
        let secret = &answer.plaintext;
        let cipher: Result<Box<dyn Cipher>, String> = match object.encrypted_dek_source_type {
            proto::SEED => Seed::new(secret).map(|seed| Box::new(seed) as Box<dyn Cipher>),
            _ => aes_gcm::cipher(secret)
                .ok_or_else(|| format!("crypto/aes: invalid key size {}", secret.len())),
        };
        let cipher = cipher.map_err(TransformError::Damaged)?;
        let source =
            Arc::new(DecryptedSeed { cipher, key_id_hash: sha256(object.key_id.as_bytes()) });
        self.keep(source_key, &source);
        Ok(source)
    }

    /// Caches a decrypted source, and drops expired ones.
    fn keep(&self, source_key: [u8; 32], source: &Arc<DecryptedSeed>) {
        let now = self.clock.moment();
        let mut sources = self.lock();
        let kept = Kept { source: source.clone(), until: now + SEED_TTL };
        if sources.insert(source_key, kept).is_none() {
            sources.retain(|_, kept| kept.until > now);
            self.metrics.dek_sources(&self.name, sources.len());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Kept>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let started = Stopwatch::start();
        let answered = self.service.call(path, request, self.timeout).await;
        let code = code_of(answered.as_ref().err());
        self.metrics.called(&self.name, path, code, started.elapsed());
        answered
    }
}

impl State {
    /// Checks that the plug-in has recently confirmed its key for writes.
    fn check_writable(&self, clock: &Clock) -> Result<(), String> {
        if clock.moment() <= self.expires {
            return Ok(());
        }
        Err(format!(
            "encryptedDEKSource with keyID hash {} expired at {} (current time is {})",
            quote(&self.source.key_id_hash),
            self.expires_at,
            Time::now(clock)
        ))
    }
}

/// Timeout of a plug-in.
pub(crate) fn timeout_of(config: &KmsConfiguration) -> Duration {
    Duration::from_nanos(u64::try_from(config.timeout.0).unwrap_or(0))
}

/// Socket of an endpoint: `unix:///path`, or `unix:///@name` for an abstract one.
fn socket(endpoint: &str) -> Result<String, String> {
    let url = Url::parse(endpoint).map_err(|error| {
        format!("invalid endpoint {} for remote KMS provider, error: {error}", quote(endpoint))
    })?;
    let path = url.escaped_path();
    Ok(if path.starts_with("/@") { path.trim_start_matches('/') } else { path }.to_owned())
}

/// Error while the plug-in has not encrypted a seed yet.
fn not_given() -> TransformError {
    unavailable("got unexpected nil transformer".to_owned())
}

/// Error of a step that will not succeed, also as an event of its span.
fn failed(span: &TraceSpan, step: &'static str, why: String) -> TransformError {
    span.event(step);
    let error = TransformError::Damaged(why);
    span.record_error(&error);
    error
}

fn unavailable(message: String) -> TransformError {
    TransformError::Unavailable { message, code: TransformError::NOT_GRPC }
}

fn failed_decryption(status: &Status) -> TransformError {
    let message = format!("failed to decrypt DEK, error: {}", shown(status));
    match is_final(status) {
        true => TransformError::Damaged(message),
        false => TransformError::Unavailable { message, code: code_of(Some(status)) },
    }
}

/// Whether a retry would get the same error, such as an unknown key; other errors are temporary.
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::DataLoss
    )
}
