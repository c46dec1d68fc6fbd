//! The user of a request (`user.Info`).

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
