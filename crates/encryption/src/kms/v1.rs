//! KMS v1: a plug-in that encrypts the key of every value.
//!
//! A value is the length of its encrypted key in two bytes, that key, and AES-GCM output. Values of servers before
//! v1.25 are AES-CBC, and can be read. Every write calls the plug-in, and so does every read whose key is not cached.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kevel_api::field_error::aggregate;
use kevel_api::quote::quote;
use kevel_clock::{Stopwatch, monotonic_now};
use kevel_server::grpc::{UnixService, code_of, shown};
use prost::Message;
use tonic::Status;

use super::proto_v1::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, VersionRequest,
    VersionResponse,
};
use super::{Timing, is_final, socket, timeout_of};
use crate::config::KmsConfiguration;
use crate::metrics::EncryptionMetrics;
use crate::transformer::{Cipher, Context, TransformError, Transformed, aes_cbc, aes_gcm, random};

const VERSION: &str = "/v1beta1.KeyManagementService/Version";
const ENCRYPT: &str = "/v1beta1.KeyManagementService/Encrypt";
const DECRYPT: &str = "/v1beta1.KeyManagementService/Decrypt";
/// The only version of the API.
const API_VERSION: &str = "v1beta1";
/// Length of the keys of values.
const KEY_LENGTH: usize = 32;
/// Plaintext of health checks.
const PING: &[u8] = b"ping";

/// A v1 plug-in.
pub(crate) struct Plugin {
    name: String,
    service: UnixService,
    timeout: Duration,
    timing: Timing,
    /// Whether the plug-in's version was checked.
    version_checked: tokio::sync::Mutex<bool>,
    /// Result of the last health check.
    last: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
    /// Cache of keys; `None` if the configuration disables it.
    keys: Option<Mutex<Lru>>,
    metrics: Arc<EncryptionMetrics>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plugin({})", self.name)
    }
}

impl Plugin {
    /// A plug-in, which is not called yet. Must be called in a runtime.
    pub fn new(
        config: &KmsConfiguration,
        timing: Timing,
        metrics: Arc<EncryptionMetrics>,
    ) -> Result<Self, String> {
        let service = socket(&config.endpoint).and_then(|socket| UnixService::new(&socket));
        let service = service.map_err(|error| {
            let name = quote(&config.name);
            format!("could not configure KMSv1-Plugin's probe {name}, error: {error}")
        })?;
        let size = usize::try_from(config.cache_size.unwrap_or(0)).unwrap_or(0);
        Ok(Plugin {
            name: config.name.clone(),
            service,
            timeout: timeout_of(config),
            timing,
            version_checked: tokio::sync::Mutex::default(),
            last: tokio::sync::Mutex::default(),
            keys: (size > 0).then(|| Mutex::new(Lru::new(size))),
            metrics,
        })
    }

    /// Appends the encrypted value, with a new key.
    pub async fn seal(
        &self,
        plain: &[u8],
        context: Context<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        self.metrics.arrived("to_storage");
        let started = Stopwatch::start();
        let mut key = Vec::new();
        let made = random(KEY_LENGTH, &mut key);
        self.metrics.generated(made.is_ok().then(|| started.elapsed()));
        made.map_err(TransformError::Damaged)?;
        let sealed_key = self.encrypt(&key).await?;
        let cipher = self.keep(&sealed_key, &key)?;
        let length = u16::try_from(sealed_key.len()).map_err(|_| too_long())?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&sealed_key);
        cipher.gcm.seal(plain, context.key, out).map_err(TransformError::Damaged)
    }

    /// Decrypts a value. The plug-in is called if its key is not cached.
    pub async fn open(
        &self,
        stored: &[u8],
        context: Context<'_>,
    ) -> Result<Transformed, TransformError> {
        self.metrics.arrived("from_storage");
        let (sealed_key, data) = split(stored).ok_or_else(|| {
            TransformError::Damaged(
                "invalid data encountered by envelope transformer: failed to read uint16 length \
                 prefixed data"
                    .to_owned(),
            )
        })?;
        let cipher = match self.known(sealed_key) {
            Some(cipher) => cipher,
            None => {
                let key = self.decrypt(sealed_key).await?;
                self.keep(sealed_key, &key)?
            }
        };
        let gcm = match cipher.gcm.open(data, context.key) {
            Ok(plain) => return Ok(Transformed { value: plain.into(), stale: false }),
            Err(error) => error,
        };
        match cipher.cbc.open(data, context.key) {
            Ok(plain) => Ok(Transformed { value: plain.into(), stale: true }),
            Err(cbc) => {
                let both = aggregate([gcm, cbc]).unwrap_or_default();
                Err(TransformError::Damaged(both))
            }
        }
    }

    /// Health: the plug-in encrypts, and decrypts the result. Cached for a short time.
    pub async fn check(&self) -> Result<(), String> {
        let mut last = self.last.lock().await;
        if let Some((asked, result)) = &*last {
            let ttl = match result {
                Ok(()) => self.timing.healthz_positive_ttl,
                Err(_) => self.timing.healthz_negative_ttl,
            };
            if asked.elapsed() < ttl {
                return result.clone();
            }
        }
        let asked = match self.encrypt(PING).await {
            Ok(sealed) => self.decrypt(&sealed).await.map(drop).map_err(|e| ("decrypt", e)),
            Err(error) => Err(("encrypt", error)),
        };
        let result = match &asked {
            Ok(()) => Ok(()),
            Err((_, error)) => Err(error.to_string()),
        };
        *last = Some((monotonic_now(), result));
        asked.map_err(|(section, error)| {
            format!(
                "failed to perform {section} section of the healthz check for KMS Provider {}, error: {error}",
                self.name
            )
        })
    }

    async fn encrypt(&self, plain: &[u8]) -> Result<Vec<u8>, TransformError> {
        let request = EncryptRequest { version: API_VERSION.to_owned(), plain: plain.to_vec() };
        let answer: EncryptResponse = self.call(ENCRYPT, request).await?;
        Ok(answer.cipher)
    }

    async fn decrypt(&self, cipher: &[u8]) -> Result<Vec<u8>, TransformError> {
        let request = DecryptRequest { version: API_VERSION.to_owned(), cipher: cipher.to_vec() };
        let answer: DecryptResponse = self.call(DECRYPT, request).await?;
        Ok(answer.plain)
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, TransformError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.check_version().await?;
        let answered: Result<A, Status> = self.service.call(path, request, self.timeout).await;
        answered.map_err(|status| match is_final(&status) {
            true => TransformError::Damaged(shown(&status)),
            false => TransformError::Unavailable {
                message: shown(&status),
                code: code_of(Some(&status)),
            },
        })
    }

    /// Checks the plug-in's API version, once.
    async fn check_version(&self) -> Result<(), TransformError> {
        let mut checked = self.version_checked.lock().await;
        if *checked {
            return Ok(());
        }
        let request = VersionRequest { version: API_VERSION.to_owned() };
        let answer: Result<VersionResponse, _> =
            self.service.call(VERSION, request, self.timeout).await;
        let problem = match answer {
            Ok(answer) if answer.version == API_VERSION => {
                *checked = true;
                return Ok(());
            }
            Ok(answer) => format!(
                "KMS provider api version {} is not supported, only {API_VERSION} is supported now",
                answer.version
            ),
            Err(status) => {
                format!("failed get version from remote KMS provider: {}", shown(&status))
            }
        };
        Err(TransformError::Unavailable { message: problem, code: TransformError::NOT_GRPC })
    }

    fn known(&self, sealed_key: &[u8]) -> Option<Arc<DataKey>> {
        let keys = self.keys.as_ref()?;
        let found = keys.lock().unwrap_or_else(PoisonError::into_inner).get(sealed_key);
        if found.is_none() {
            self.metrics.missed();
        }
        found
    }

    /// Ciphers of a key, cached for later reads.
    fn keep(&self, sealed_key: &[u8], key: &[u8]) -> Result<Arc<DataKey>, TransformError> {
        let invalid =
            || TransformError::Damaged(format!("crypto/aes: invalid key size {}", key.len()));
        let gcm = aes_gcm::cipher(key).ok_or_else(invalid)?;
        let cbc = aes_cbc::cipher(key).ok_or_else(invalid)?;
        let made = Arc::new(DataKey { gcm, cbc });
        if let Some(keys) = &self.keys {
            let mut keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.insert(sealed_key, made.clone());
            self.metrics.dek_cache_filled(keys.entries.len(), keys.size);
        }
        Ok(made)
    }
}

/// Key of a value.
struct DataKey {
    gcm: Box<dyn Cipher>,
    cbc: Box<dyn Cipher>,
}

/// Encrypted key at the beginning of a value, and the rest.
fn split(stored: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = stored.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

fn too_long() -> TransformError {
    TransformError::Damaged(
        "cryptobyte: pending child length overflows 2-byte length prefix".to_owned(),
    )
}

/// Cache of keys by their encrypted form; the least recently used is evicted.
struct Lru {
    size: usize,
    entries: HashMap<Vec<u8>, (u64, Arc<DataKey>)>,
    /// By time of last use.
    order: BTreeMap<u64, Vec<u8>>,
    turn: u64,
}

impl Lru {
    fn new(size: usize) -> Lru {
        Lru { size, entries: HashMap::new(), order: BTreeMap::new(), turn: 0 }
    }

    fn get(&mut self, key: &[u8]) -> Option<Arc<DataKey>> {
        let (used, found) = self.entries.get_mut(key)?;
        let name = self.order.remove(used)?;
        self.turn += 1;
        *used = self.turn;
        self.order.insert(self.turn, name);
        Some(found.clone())
    }

    fn insert(&mut self, key: &[u8], made: Arc<DataKey>) {
        self.turn += 1;
        if let Some((used, _)) = self.entries.insert(key.to_vec(), (self.turn, made)) {
            self.order.remove(&used);
        }
        self.order.insert(self.turn, key.to_vec());
        if self.entries.len() > self.size
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }
}
