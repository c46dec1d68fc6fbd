//! Service accounts: users in a namespace, authenticated by tokens that this server signs.
//!
//! - [`Issuer`] signs tokens, or has them signed by an [`ExternalSigner`]; [`TokenRequest`] is the API that issues
//!   one.
//! - [`BoundTokens`] authenticates such tokens, while the objects that they are bound to exist.
//! - [`LegacyTokens`] authenticates the tokens in secrets, which never expire; [`tracking`] records since when their
//!   use is tracked.
//! - [`OpenIdMetadata`] publishes the documents by which others verify tokens.

mod bound;
mod claims;
mod external_signer;
mod keys;
mod legacy;
mod metrics;
mod objects;
mod openid;
mod request;
mod signed;
pub mod tracking;

use kevel_registry::user::{CREDENTIAL_ID, User};

pub use self::bound::BoundTokens;
pub use self::claims::Reference;
pub use self::external_signer::ExternalSigner;
pub use self::keys::{Keys, Signer};
pub use self::legacy::LegacyTokens;
pub use self::metrics::TokenUses;
pub use self::objects::Objects;
pub use self::openid::{CONFIGURATION_PATH, JWKS_PATH, OPEN_ID_DOCUMENTS, OpenIdMetadata};
pub use self::request::{EXTENDED, Issuer, TokenRequest};
pub use self::signed::Verifier;

const USERNAME_PREFIX: &str = "system:serviceaccount:";
const GROUP: &str = "system:serviceaccounts";

/// Keys of [`User::extra`] for the pod and node of a token.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// User name of a service account.
pub fn username(namespace: &str, name: &str) -> String {
    format!("{USERNAME_PREFIX}{namespace}:{name}")
}

/// Identity in a valid token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Identity {
    namespace: String,
    account: Reference,
    pod: Option<Reference>,
    node: Option<Reference>,
    /// Token ID (`jti`); empty if there is none.
    token_id: String,
}

impl Identity {
    fn user(&self) -> User {
        let mut extra: Vec<(String, Vec<String>)> = Vec::new();
        let mut add = |key: &str, value: &str| extra.push((key.to_owned(), vec![value.to_owned()]));
        if !self.token_id.is_empty() {
            add(CREDENTIAL_ID, &credential_id(&self.token_id));
        }
        if let Some(node) = self.node.as_ref().filter(|node| !node.name.is_empty()) {
            add(NODE_NAME, &node.name);
            if !node.uid.is_empty() {
                add(NODE_UID, &node.uid);
            }
        }
        let complete = |pod: &&Reference| !pod.name.is_empty() && !pod.uid.is_empty();
        if let Some(pod) = self.pod.as_ref().filter(complete) {
            add(POD_NAME, &pod.name);
            add(POD_UID, &pod.uid);
        }
        User {
            name: username(&self.namespace, &self.account.name),
            uid: self.account.uid.clone(),
            groups: vec![GROUP.to_owned(), format!("{GROUP}:{}", self.namespace)],
            extra,
        }
    }
}

/// Credential ID of a token: `JTI=` and the token ID.
pub(crate) fn credential_id(token_id: &str) -> String {
    format!("JTI={token_id}")
}

#[cfg(test)]
mod tests;
