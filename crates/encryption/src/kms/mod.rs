//! `kms`: keys that a plug-in holds, on a socket of this machine. Here is v2; [`v1`] is apart.
//!
//! The plug-in encrypts a seed, once; the server derives the keys of values from it. With each value
//! stands what the plug-in made of the seed, so that it can be asked for the seed again. What it has
//! decrypted is kept: reads need the plug-in once for each seed, writes never.
//!
//! The plug-in is asked for its status again and again ([`probe`]): a new key ID makes a new seed, and
//! what was written with the old one stale. A plug-in that does not answer is coasted without for a
//! while; then nothing is written any more, so that nobody believes in a rotation that did not happen.

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

/// How often a plug-in is asked, and for how long what it said is believed. The reference's numbers,
/// but for tests.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// When a plug-in that was well is asked again.
    pub positive_interval: Duration,
    /// When one that was not is asked again.
    pub negative_interval: Duration,
    /// For how long a seed is used to write without the plug-in saying that it may.
    pub write_source_max_ttl: Duration,
    /// For how long a health check is answered from memory that was green.
    pub healthz_positive_ttl: Duration,
    /// The same of one that was red.
    pub healthz_negative_ttl: Duration,
    /// How often the configuration file is looked at.
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

/// For how long a decrypted seed is kept that nobody writes with. There are as many as servers were
/// started since all values were written last: few.
const SEED_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// A plug-in of either version.
#[derive(Clone, Debug)]
pub(crate) enum Kms {
    /// It encrypts the key of every value.
    V1(Arc<v1::Plugin>),
    /// It encrypts a seed.
    V2(Arc<Plugin>),
}

impl Kms {
    /// Whether it is well.
    pub async fn check(&self) -> Result<(), String> {
        match self {
            Kms::V1(plugin) => plugin.check().await,
            Kms::V2(plugin) => plugin.check().await,
        }
    }

    /// Asks it for the first time, where it has to be asked before it is needed.
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

    /// A value as it was.
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

/// A plug-in of v2.
pub(crate) struct Plugin {
    name: String,
    service: UnixService,
    timeout: Duration,
    timing: Timing,
    /// What is written with, once the plug-in has given it.
    state: ArcSwapOption<State>,
    last: tokio::sync::Mutex<Last>,
    /// What was decrypted, by [`EncryptedObject::source_key`].
    sources: Mutex<HashMap<[u8; 32], Kept>>,
    metrics: Arc<EncryptionMetrics>,
    /// The hash of the server's ID.
    server: String,
    clock: Clock,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plugin({})", self.name)
    }
}

/// What is written with.
struct State {
    source: Arc<Source>,
    /// What is stored with every value, which is what makes it readable again.
    object: EncryptedObject,
    source_key: [u8; 32],
    expires: Moment,
    expires_at: Time,
}

/// A seed, or an old key, that the plug-in has given.
struct Source {
    cipher: Box<dyn Cipher>,
    /// Of the ID of the plug-in's key, for metrics.
    key_id_hash: String,
}

struct Kept {
    source: Arc<Source>,
    until: Moment,
}

impl Plugin {
    /// A plug-in, which has not been asked yet. Must be called in a runtime.
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
        let state = self.state.load();
        let state = state.as_deref().ok_or_else(not_given)?;
        state.check_writable(&self.clock).map_err(unavailable)?;
        self.keep(state.source_key, &state.source);
        let mut object = state.object.clone();
        let sealed = state.source.cipher.seal(plain, context.key, &mut object.encrypted_data);
        sealed.map_err(TransformError::Damaged)?;
        let (key_id, server) = (&state.source.key_id_hash, &self.server);
        self.metrics.used_key("to_storage", &self.name, key_id, server);
        object.encode(out).map_err(|error| TransformError::Damaged(error.to_string()))
    }

    /// A value as it was. The plug-in is asked where its seed is not known.
    pub async fn open(
        &self,
        stored: &[u8],
        context: Context<'_>,
    ) -> Result<Transformed, TransformError> {
        let object = EncryptedObject::decode(stored).map_err(|_| {
            TransformError::Damaged("proto: cannot parse invalid wire-format data".to_owned())
        })?;
        object::check(&object).map_err(TransformError::Damaged)?;
        // What is stale is only known to who knows the plug-in's key.
        let stale = {
            let state = self.state.load();
            let now = &state.as_deref().ok_or_else(not_given)?.object;
            object.key_id != now.key_id
                || object.encrypted_dek_source_type != now.encrypted_dek_source_type
        };
        let source = self.source(&object).await?;
        let (key_id, server) = (&source.key_id_hash, &self.server);
        self.metrics.used_key("from_storage", &self.name, key_id, server);
        let plain = source.cipher.open(&object.encrypted_data, context.key);
        let value = plain.map_err(TransformError::Damaged)?.into();
        Ok(Transformed { value, stale })
    }

    /// What a value's key is made from: known, or decrypted by the plug-in.
    async fn source(&self, object: &EncryptedObject) -> Result<Arc<Source>, TransformError> {
        let source_key = object.source_key();
        if let Some(kept) = self.lock().get(&source_key) {
            return Ok(kept.source.clone());
        }
        self.metrics.missed();
        let request = proto::DecryptRequest {
            ciphertext: object.encrypted_dek_source.clone(),
            uid: uuid::Uuid::new_v4().to_string(),
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        };
        let answer: proto::DecryptResponse =
            self.call(DECRYPT, request).await.map_err(|status| failed_decryption(&status))?;
        let secret = &answer.plaintext;
        let cipher: Result<Box<dyn Cipher>, String> = match object.encrypted_dek_source_type {
            proto::SEED => Seed::new(secret).map(|seed| Box::new(seed) as Box<dyn Cipher>),
            _ => aes_gcm::cipher(secret)
                .ok_or_else(|| format!("crypto/aes: invalid key size {}", secret.len())),
        };
        let cipher = cipher.map_err(TransformError::Damaged)?;
        let source = Arc::new(Source { cipher, key_id_hash: sha256(object.key_id.as_bytes()) });
        self.keep(source_key, &source);
        Ok(source)
    }

    /// Keeps what was decrypted, and lets go of what nobody has needed for long.
    fn keep(&self, source_key: [u8; 32], source: &Arc<Source>) {
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
    /// Whether the plug-in has said lately that its key may be written with.
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

/// How long a plug-in may take.
pub(crate) fn timeout_of(config: &KmsConfiguration) -> Duration {
    Duration::from_nanos(u64::try_from(config.timeout.0).unwrap_or(0))
}

/// The socket of an endpoint: `unix:///path`, or `unix:///@name` for one without a file.
fn socket(endpoint: &str) -> Result<String, String> {
    let url = Url::parse(endpoint).map_err(|error| {
        format!("invalid endpoint {} for remote KMS provider, error: {error}", quote(endpoint))
    })?;
    let path = url.escaped_path();
    Ok(if path.starts_with("/@") { path.trim_start_matches('/') } else { path }.to_owned())
}

/// The error while the plug-in has given no key yet.
fn not_given() -> TransformError {
    unavailable("got unexpected nil transformer".to_owned())
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

/// Whether a plug-in would say the same again, as that there is no such key; all else may get better.
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
