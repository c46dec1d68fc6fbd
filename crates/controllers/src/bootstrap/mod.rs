//! Bootstrap tokens, by which nodes join a cluster.

mod cleaner;
mod signer;

use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_store::cache::Object;

pub(crate) use cleaner::build as build_cleaner;
pub(crate) use signer::build as build_signer;

/// Namespace of bootstrap tokens.
const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const PREFIX: &str = "bootstrap-token-";

/// Whether a Secret has the name and namespace of a bootstrap token.
fn may_be_token(secret: &Object) -> bool {
    secret.namespace() == NAMESPACE
}

fn is_token(secret: &Value) -> bool {
    secret.str_at(&["type"]) == TYPE && secret.str_at(&["metadata", "namespace"]) == NAMESPACE
}

/// A value of a Secret as text; empty if there is none.
fn data(secret: &Value, key: &str) -> String {
    let mut bytes = Vec::new();
    let _ = base64::decode_into(secret.str_at(&["data", key]), &mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Time at which a token expires, if it does. A time that cannot be read has passed.
fn expiration(secret: &Value) -> Option<Time> {
    let text = data(secret, "expiration");
    (!text.is_empty()).then(|| text.parse().unwrap_or(Time::ZERO))
}
