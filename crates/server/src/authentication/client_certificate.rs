//! Client certificates: the common name is the user, the organizations are the groups.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::group::in_authenticated_group;
use super::{AuthError, Authenticated, Authenticator};
use crate::certificates::ClientIdentity;
use crate::handler::Pending;
use crate::request::Request;
use crate::user::{CREDENTIAL_ID, User};

/// How many users are kept.
const MOST_KEPT: usize = 1024;

type Kept = (Arc<ClientIdentity>, Arc<User>);
type Verify = dyn Fn(&[Bytes]) -> Result<Arc<ClientIdentity>, String> + Send + Sync;

/// Knows users by the certificates that they presented in the handshake.
pub struct ClientCertificate {
    verify: Box<Verify>,
    /// The user of an identity, so that it is not put together anew for each request. The identity
    /// is kept with it: its address stands for it.
    users: Mutex<HashMap<usize, Kept>>,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientCertificate")
    }
}

impl ClientCertificate {
    /// `verify` judges a chain, the client's own certificate first; see
    /// [`ClientVerifier`](crate::certificates::ClientVerifier), which remembers what it has judged.
    pub fn new(
        verify: impl Fn(&[Bytes]) -> Result<Arc<ClientIdentity>, String> + Send + Sync + 'static,
    ) -> Self {
        ClientCertificate { verify: Box::new(verify), users: Mutex::default() }
    }

    fn user_of(&self, certificates: &[Bytes]) -> Authenticated {
        if certificates.is_empty() {
            return Ok(None);
        }
        let identity = (self.verify)(certificates).map_err(AuthError)?;
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
        let user = Arc::new(user(&identity));
        users.insert(key, (identity, user.clone()));
        Ok(Some(user))
    }
}

impl Authenticator for ClientCertificate {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        let found = self.user_of(&request.connection.certificates);
        Box::pin(std::future::ready(found))
    }
}

fn user(identity: &ClientIdentity) -> User {
    in_authenticated_group(User {
        name: identity.common_name.clone(),
        uid: identity.uid.clone(),
        groups: identity.organizations.clone(),
        extra: vec![(CREDENTIAL_ID.to_owned(), vec![identity.credential_id.clone()])],
    })
}
