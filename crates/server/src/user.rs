//! The user of a request (`user.Info`).

use std::collections::HashMap;

/// What a server is called by itself.
pub const APISERVER: &str = "system:apiserver";
/// The group of all authenticated users.
pub const ALL_AUTHENTICATED: &str = "system:authenticated";
/// The group of anonymous requests.
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of anonymous requests.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that may do everything.
pub const PRIVILEGED: &str = "system:masters";

/// The group of nodes.
pub const NODES: &str = "system:nodes";
/// How the names of nodes begin.
const NODE_PREFIX: &str = "system:node:";

/// The key of [`User::extra`] that says which credential was used.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// An identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, which is unique.
    pub name: String,
    /// What tells users of one name apart, over time.
    pub uid: String,
    /// The groups it is in.
    pub groups: Vec<String>,
    /// What else its authenticator knows.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// The user of a request without credentials.
    pub fn anonymous() -> Self {
        User { name: ANONYMOUS.into(), groups: vec![ALL_UNAUTHENTICATED.into()], ..User::default() }
    }

    /// The node that this is, by the name that follows `system:node:`; it may be empty. Whoever is
    /// not among the nodes is none, whatever the name.
    pub fn node_name(&self) -> Option<&str> {
        let name = self.name.strip_prefix(NODE_PREFIX)?;
        self.groups.iter().any(|group| group == NODES).then_some(name)
    }
}

/// [`User::extra`] in the making: keys in the order in which they come first, each with all of its values. A key
/// that has come before is looked up, since a client may send as many headers as a connection allows.
#[derive(Debug, Default)]
pub struct ExtraBuilder {
    extra: Vec<(String, Vec<String>)>,
    /// Position of each key.
    places: HashMap<String, usize>,
}

impl ExtraBuilder {
    /// Adds values of a key behind those that it has.
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
