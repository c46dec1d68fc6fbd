//! Transformation of values between storage and memory (upstream: value.Transformer, PrefixTransformer).

pub(crate) mod aes_cbc;
pub(crate) mod aes_gcm;
mod keys;
mod secretbox;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use kevel_api::field_error::aggregate;
use kevel_clock::Stopwatch;
use ring::rand::{SecureRandom, SystemRandom};

use self::keys::Keys;
use crate::config::ProviderConfiguration;
use crate::kms::Kms;
use crate::metrics::EncryptionMetrics;

/// Prefix of every encrypted value.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Context of a value.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Storage key, which authenticated ciphers bind to the value.
    pub key: &'a [u8],
    /// `secrets`, `deployments.apps`.
    pub resource: &'a str,
    /// Metrics to count the transformation in.
    pub metrics: &'a EncryptionMetrics,
}

/// A decrypted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformed {
    /// The plain value.
    pub value: Bytes,
    /// Whether it would be written with another key or provider now.
    pub stale: bool,
}

/// Error of encryption or decryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransformError {
    /// Permanent: no provider of this configuration can decrypt the value.
    Damaged(String),
    /// Temporary: the KMS plug-in does not answer.
    Unavailable {
        /// Error message.
        message: String,
        /// gRPC status code for metrics, if there was a call.
        code: &'static str,
    },
}

impl std::fmt::Display for TransformError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TransformError::Damaged(message) | TransformError::Unavailable { message, .. } => {
                f.write_str(message)
            }
        }
    }
}

impl TransformError {
    /// Status label of errors without a gRPC status.
    pub(crate) const NOT_GRPC: &str = "unknown-non-grpc";

    pub(crate) fn code(&self) -> &'static str {
        match self {
            TransformError::Damaged(_) => Self::NOT_GRPC,
            TransformError::Unavailable { code, .. } => code,
        }
    }

    /// Combines errors: temporary if one of them is.
    fn all(errors: Vec<TransformError>) -> Option<TransformError> {
        let message = aggregate(&errors)?;
        let unavailable = |error: &TransformError| match error {
            TransformError::Unavailable { code, .. } => Some(*code),
            TransformError::Damaged(_) => None,
        };
        Some(match errors.iter().find_map(unavailable) {
            Some(code) => TransformError::Unavailable { message, code },
            None => TransformError::Damaged(message),
        })
    }
}

/// Cipher with a local key.
pub(crate) trait Cipher: Send + Sync {
    /// Appends the encrypted value.
    fn seal(&self, plain: &[u8], key: &[u8], out: &mut Vec<u8>) -> Result<(), String>;

    /// Decrypts a value.
    fn open(&self, stored: &[u8], key: &[u8]) -> Result<Vec<u8>, String>;
}

/// Providers of one entry of the configuration. The first encrypts; all decrypt.
#[derive(Debug, Default)]
pub struct Providers(Vec<Arc<Provider>>);

/// One provider.
#[derive(Debug)]
pub(crate) struct Provider {
    /// Prefix of its values.
    prefix: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Identity,
    Keys(Keys),
    Kms(Kms),
}

impl Provider {
    /// Provider of a validated configuration. `plugin` creates a KMS plug-in.
    pub(crate) fn new(
        config: &ProviderConfiguration,
        plugin: impl FnOnce(&crate::config::KmsConfiguration) -> Result<Kms, String>,
    ) -> Result<Self, String> {
        let ProviderConfiguration { aesgcm, aescbc, secretbox, identity, kms } = config;
        let keys = |name: &str, keys: Keys| Provider {
            prefix: format!("k8s:enc:{name}:v1:"),
            kind: Kind::Keys(keys),
        };
        Ok(if let Some(of) = aesgcm {
            keys("aesgcm", Keys::new(of, "AES", aes_gcm::cipher)?)
        } else if let Some(of) = aescbc {
            keys("aescbc", Keys::new(of, "AES", aes_cbc::cipher)?)
        } else if let Some(of) = secretbox {
            keys("secretbox", Keys::new(of, "Secretbox", secretbox::cipher)?)
        } else if let Some(kms) = kms {
            let prefix = format!("k8s:enc:kms:{}:{}:", kms.api_version, kms.name);
            Provider { prefix, kind: Kind::Kms(plugin(kms)?) }
        } else if *identity {
            Provider { prefix: String::new(), kind: Kind::Identity }
        } else {
            return Err("provider does not contain any of the expected providers: KMS, AESGCM, \
                        AESCBC, Secretbox, Identity"
                .to_owned());
        })
    }

    /// Label in metrics.
    fn label(&self) -> &str {
        if self.prefix.is_empty() { "identity" } else { &self.prefix }
    }

    async fn open(
        &self,
        stored: &Bytes,
        context: Context<'_>,
    ) -> Result<Transformed, TransformError> {
        let rest = stored.get(self.prefix.len()..).unwrap_or_default();
        match &self.kind {
            Kind::Identity => {
                identity(stored)?;
                Ok(Transformed { value: stored.clone(), stale: false })
            }
            Kind::Keys(keys) => keys.open(rest, context),
            Kind::Kms(plugin) => plugin.open(rest, context).await,
        }
    }

    async fn seal(
        &self,
        plain: &[u8],
        context: Context<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        match &self.kind {
            Kind::Identity => out.extend_from_slice(plain),
            Kind::Keys(keys) => keys.seal(plain, context, out).map_err(TransformError::Damaged)?,
            Kind::Kms(plugin) => plugin.seal(plain, context, out).await?,
        }
        Ok(())
    }
}

/// Usual growth of a value: prefix, nonce and tag.
const OVERHEAD: usize = 128;

impl Providers {
    pub(crate) fn extend(&mut self, more: &[Arc<Provider>]) {
        self.0.extend_from_slice(more);
    }

    /// Encrypts a value. v2 plug-ins are not called: they have encrypted their seed before.
    pub async fn to_storage(
        &self,
        plain: &[u8],
        context: Context<'_>,
    ) -> Result<Vec<u8>, TransformError> {
        let none = || TransformError::Damaged("no matching prefix found".to_owned());
        let first = self.0.first().ok_or_else(none)?;
        let started = Stopwatch::start();
        let mut out = Vec::with_capacity(first.prefix.len() + plain.len() + OVERHEAD);
        out.extend_from_slice(first.prefix.as_bytes());
        let sealed = first.seal(plain, context, &mut out).await;
        context.metrics.written(context.resource, &first.prefix, started, sealed.as_ref().err());
        sealed.map(|()| out)
    }

    /// Decrypts a stored value.
    pub async fn from_storage(
        &self,
        stored: &Bytes,
        context: Context<'_>,
    ) -> Result<Transformed, TransformError> {
        let started = Stopwatch::start();
        let mut errors = Vec::new();
        for (place, provider) in self.0.iter().enumerate() {
            if !stored.starts_with(provider.prefix.as_bytes()) {
                continue;
            }
            let opened = provider.open(stored, context).await;
            // A migration away from encryption has identity before the old provider: values that identity cannot read
            // are for the later ones.
            if provider.prefix.is_empty() && opened.is_err() {
                continue;
            }
            let (resource, error) = (context.resource, opened.as_ref().err());
            context.metrics.read(resource, provider.label(), started, error);
            match opened {
                Ok(opened) => {
                    return Ok(Transformed { stale: opened.stale || place != 0, ..opened });
                }
                // The same provider may follow with other keys.
                Err(error) => errors.push(error),
            }
        }
        let none = || {
            let error = TransformError::Damaged("no matching prefix found".to_owned());
            context.metrics.read(context.resource, "unknown", started, Some(&error));
            error
        };
        Err(TransformError::all(errors).unwrap_or_else(none))
    }
}

/// Accepts a value that is not encrypted, and rejects an encrypted one.
pub(crate) fn identity(stored: &[u8]) -> Result<(), TransformError> {
    match stored.starts_with(ENCRYPTED) {
        true => Err(TransformError::Damaged(
            "identity transformer tried to read encrypted data".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Appends random bytes.
pub(crate) fn random(count: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let start = out.len();
    out.resize(start + count, 0);
    let fresh = out.get_mut(start..).unwrap_or_default();
    SystemRandom::new().fill(fresh).map_err(|_| "unable to read sufficient random bytes".to_owned())
}
