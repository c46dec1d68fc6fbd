//! Client certificates: the common name is the user, the organizations are the groups.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use kevel_clock::Clock;

use super::group::in_authenticated_group;
use super::{AuthError, Authenticated, Authenticator};
use crate::metrics::{Description, Histogram, Metrics};
use crate::request::{Connection, Request};
use kevel_component::future::Pending;
use kevel_pki::{Certificate, ClientIdentity};
use kevel_registry::user::{CREDENTIAL_ID, User};

/// Most users kept.
const MOST_KEPT: usize = 1024;

/// Buckets of the remaining lifetime of certificates, in seconds.
const LIFETIMES: &[f64] = &[
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

type Kept = (Arc<ClientIdentity>, Arc<User>);
type Verify = dyn Fn(&[Bytes]) -> Result<Arc<ClientIdentity>, String> + Send + Sync;

/// Authenticates users by the client certificates of the TLS handshake.
pub struct ClientCertificate {
    verify: Box<Verify>,
    /// User of an identity, so that it is not built for each request. The identity, whose address is the key, is kept
    /// with it.
    users: Mutex<HashMap<usize, Kept>>,
    lifetimes: Option<Arc<Histogram>>,
    with_uids: bool,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientCertificate")
    }
}

impl ClientCertificate {
    /// `verify` verifies a chain, the leaf first; see [`ClientVerifier`](kevel_pki::ClientVerifier), which caches its
    /// results.
    pub fn new(
        verify: impl Fn(&[Bytes]) -> Result<Arc<ClientIdentity>, String> + Send + Sync + 'static,
    ) -> Self {
        ClientCertificate {
            verify: Box::new(verify),
            users: Mutex::default(),
            lifetimes: None,
            with_uids: true,
        }
    }

    /// Takes the uid of a user from its certificate, or not (`AllowParsingUserUIDFromCertAuth`).
    pub fn with_uids(mut self, with_uids: bool) -> Self {
        self.with_uids = with_uids;
        self
    }

    /// Records the remaining lifetime of requests' certificates.
    pub fn measured(mut self, metrics: &Metrics) -> Self {
        let description = Description {
            name: "apiserver_client_certificate_expiration_seconds",
            help: "[ALPHA] Remaining validity of client certificates in requests, in seconds.",
            labels: &[],
        };
        self.lifetimes = Some(metrics.histogram(description, LIFETIMES).with(&[]));
        self
    }

    fn measure(&self, certificate: &Bytes, clock: &Clock) {
        let Some(lifetimes) = &self.lifetimes else { return };
        let end = Certificate::read(certificate).and_then(|certificate| certificate.not_after());
        let Some(end) = end else { return };
        lifetimes.observe(match end.duration_since(clock.now()) {
            Ok(left) => left.as_secs_f64(),
            Err(past) => -past.duration().as_secs_f64(),
        });
    }

    fn user_of(&self, connection: &Connection) -> Authenticated {
        let Some(own) = connection.certificates.first() else { return Ok(None) };
        self.measure(own, &connection.clock);
        let identity = (self.verify)(&connection.certificates).map_err(AuthError)?;
        if identity.common_name.is_empty() {
            return Ok(None);
        }
        let key = Arc::as_ptr(&identity).addr();
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, user)) = users.get(&key) {
            return Ok(Some(user.clone()));
        }
        if users.len() >= MOST_KEPT {
            users.clear();
        }
        let user = Arc::new(self.user(&identity));
        users.insert(key, (identity, user.clone()));
        Ok(Some(user))
    }

    fn user(&self, identity: &ClientIdentity) -> User {
        let uid = if self.with_uids { identity.uid.clone() } else { String::new() };
        in_authenticated_group(User {
            name: identity.common_name.clone(),
            uid,
            groups: identity.organizations.clone(),
            extra: vec![(CREDENTIAL_ID.to_owned(), vec![identity.credential_id.clone()])],
        })
    }
}

impl Authenticator for ClientCertificate {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        let found = self.user_of(&request.connection);
        Box::pin(std::future::ready(found))
    }
}
