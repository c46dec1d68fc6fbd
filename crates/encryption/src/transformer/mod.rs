//! Values on their way to the store and back.

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

/// What every encrypted value begins with, whoever has encrypted it.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// What a value is, beside its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Its whole key, which is bound to it.
    pub key: &'a [u8],
    /// `secrets`, `deployments.apps`.
    pub resource: &'a str,
    /// Where it is counted.
    pub metrics: &'a EncryptionMetrics,
}

/// A value as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformed {
    /// The plain value.
    pub value: Bytes,
    /// Whether it would be written with another key or provider today.
    pub stale: bool,
}

/// Why a value cannot be encrypted or decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransformError {
    /// Nobody could, with this configuration.
    Damaged(String),
    /// Who has the key does not answer.
    Unavailable {
        /// What it says.
        message: String,
        /// How the call ended, where there was one.
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
    /// What metrics say of a failure that no plug-in has told.
    pub(crate) const NOT_GRPC: &str = "unknown-non-grpc";

    pub(crate) fn code(&self) -> &'static str {
        match self {
            TransformError::Damaged(_) => Self::NOT_GRPC,
            TransformError::Unavailable { code, .. } => code,
        }
    }

    /// Several as one: if one may go well later, so may all.
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

/// A way to encrypt with a key at hand.
pub(crate) trait Cipher: Send + Sync {
    /// Appends the encrypted value.
    fn seal(&self, plain: &[u8], key: &[u8], out: &mut Vec<u8>) -> Result<(), String>;

    /// The plain value.
    fn open(&self, stored: &[u8], key: &[u8]) -> Result<Vec<u8>, String>;
}

/// What the resources of one entry of the configuration are encrypted with. The first writes; all read.
#[derive(Debug, Default)]
pub struct Providers(Vec<Arc<Provider>>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Provider {
    /// What its values begin with.
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
    /// The provider of a configuration that has been checked. `plugin` connects to one.
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

    /// What metrics call it.
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

/// How much longer a value may become, as a rule: prefix, nonce and tag.
const OVERHEAD: usize = 128;

impl Providers {
    pub(crate) fn extend(&mut self, more: &[Arc<Provider>]) {
        self.0.extend_from_slice(more);
    }

    /// A value as it is stored. Plug-ins of v2 are not asked: they have given their key before.
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

    /// A stored value as it was.
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
            // Who migrates away from encryption has identity before what was used: what it cannot
            // read is for those after it.
            if provider.prefix.is_empty() && opened.is_err() {
                continue;
            }
            let (resource, error) = (context.resource, opened.as_ref().err());
            context.metrics.read(resource, provider.label(), started, error);
            match opened {
                Ok(opened) => {
                    return Ok(Transformed { stale: opened.stale || place != 0, ..opened });
                }
                // The same provider may be there again with other keys.
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

/// What nobody has encrypted is read as it is; what somebody has, not at all.
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
