//! Keys that sign and verify service account tokens.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::Value;

use super::ExternalSigner;
use crate::jose::{PrivateKey, PublicKey, sign};

/// Cache time of keys from files, which are read once.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Signer of tokens.
#[derive(Debug)]
pub enum Signer {
    /// Private key of this server.
    Key(Box<PrivateKey>),
    /// External signer.
    External(Arc<ExternalSigner>),
}

impl Signer {
    pub(super) async fn sign(&self, claims: &Value) -> Result<String, String> {
        match self {
            Signer::Key(key) => sign(key, claims),
            Signer::External(signer) => signer.sign(claims).await,
        }
    }
}

/// Keys that verify tokens.
#[derive(Clone, Debug)]
pub enum Keys {
    /// Keys from files, which are read once.
    Files(Arc<[PublicKey]>),
    /// Keys of the external signer.
    External(Arc<ExternalSigner>),
}

impl Keys {
    /// True if a key with this ID (any key if it is empty) satisfies `does`; `None` if there is no such key.
    pub(super) async fn any(&self, id: &str, does: impl Fn(&PublicKey) -> bool) -> Option<bool> {
        match self {
            Keys::Files(keys) => {
                let mut keys = keys.iter().filter(|key| id.is_empty() || key.id() == id).peekable();
                keys.peek()?;
                Some(keys.any(does))
            }
            Keys::External(signer) => signer.any(id, does).await,
        }
    }

    /// Keys for OIDC discovery.
    pub(super) fn shown(&self) -> Vec<PublicKey> {
        match self {
            Keys::Files(keys) => keys.to_vec(),
            Keys::External(signer) => signer.shown(),
        }
    }

    /// Time for which clients may cache the keys.
    pub(super) fn max_age(&self) -> Duration {
        match self {
            Keys::Files(_) => HOUR,
            Keys::External(signer) => signer.max_age(),
        }
    }
}
