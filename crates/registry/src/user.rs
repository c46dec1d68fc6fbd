//! User of a request (upstream: `user.Info`).

use std::collections::HashMap;

/// User name of the server's own requests.
pub const APISERVER: &str = "system:apiserver";
/// The group of all authenticated users.
pub const ALL_AUTHENTICATED: &str = "system:authenticated";
/// The group of anonymous requests.
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of anonymous requests.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that is authorized for everything.
pub const PRIVILEGED: &str = "system:masters";

/// The group of monitoring, which may decide what is traced.
pub const MONITORING: &str = "system:monitoring";

/// The group of nodes.
pub const NODES: &str = "system:nodes";
/// Prefix of the user names of nodes.
const NODE_PREFIX: &str = "system:node:";

/// Key in [`User::extra`] of the ID of the used credential.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// An authenticated identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Unique name.
    pub name: String,
    /// Unique ID over time, also for users of the same name.
    pub uid: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// Further facts from the authenticator.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// The user of a request without credentials.
    pub fn anonymous() -> Self {
        User { name: ANONYMOUS.into(), groups: vec![ALL_UNAUTHENTICATED.into()], ..User::default() }
    }

    /// Name of the node that this user is, after `system:node:`; it may be empty. `None` for users outside the group of
    /// nodes, whatever their name.
    pub fn node_name(&self) -> Option<&str> {
        let name = self.name.strip_prefix(NODE_PREFIX)?;
        self.groups.iter().any(|group| group == NODES).then_some(name)
    }
}

/// Builder of [`User::extra`]: keys in the order of their first occurrence, each with all of its values. Known keys are
/// found by a map, since a client may send as many headers as a connection allows.
#[derive(Debug, Default)]
pub struct ExtraBuilder {
    extra: Vec<(String, Vec<String>)>,
    /// Position of each key in `extra`.
    places: HashMap<String, usize>,
}

impl ExtraBuilder {
    /// Appends values to a key.
    pub fn add(&mut self, key: String, values: impl IntoIterator<Item = String>) {
        let known = self.places.get(&key).and_then(|place| self.extra.get_mut(*place));
        match known {
            Some((_, all)) => all.extend(values),
            None => {
                self.places.insert(key.clone(), self.extra.len());
                self.extra.push((key, values.into_iter().collect()));
            }
        }
    }

    /// The finished list.
    pub fn build(self) -> Vec<(String, Vec<String>)> {
        self.extra
    }
}
