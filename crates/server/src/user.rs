//! Who asks.

/// The group of everybody who said who they are.
pub const ALL_AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody who did not.
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user that nobody said to be.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that may do everything.
pub const PRIVILEGED: &str = "system:masters";

/// An identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    pub fn anonymous() -> Self {
        User { name: ANONYMOUS.into(), groups: vec![ALL_UNAUTHENTICATED.into()], ..User::default() }
    }
}
