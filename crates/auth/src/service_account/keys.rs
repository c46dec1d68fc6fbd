//! What signs service accounts' tokens, and what verifies them.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::Value;

use super::ExternalSigner;
use crate::jose::{PrivateKey, PublicKey, sign};

/// How long others may keep keys that are read once.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// What signs tokens.
#[derive(Debug)]
pub enum Signer {
    /// A key of this server's own.
    Key(Box<PrivateKey>),
    /// Somebody else.
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

/// The keys that verify tokens.
#[derive(Clone, Debug)]
pub enum Keys {
    /// Those of files, which are read once.
    Files(Arc<[PublicKey]>),
    /// Those that an external signer tells.
    External(Arc<ExternalSigner>),
}

impl Keys {
    /// Whether a key of this name (any if it is empty) does it; `None` if there is none.
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

    /// Those that others are told of.
    pub(super) fn shown(&self) -> Vec<PublicKey> {
        match self {
            Keys::Files(keys) => keys.to_vec(),
            Keys::External(signer) => signer.shown(),
        }
    }

    /// For how long others may keep them.
    pub(super) fn max_age(&self) -> Duration {
        match self {
            Keys::Files(_) => HOUR,
            Keys::External(signer) => signer.max_age(),
        }
    }
}
