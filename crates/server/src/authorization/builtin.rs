//! Authorizers that need to know nothing.

use super::{Attributes, Authorizer, Opinion};
use crate::handler::Pending;

/// `--authorization-mode=AlwaysAllow`: everybody may do everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        Box::pin(std::future::ready(Opinion::allow()))
    }
}

/// `--authorization-mode=AlwaysDeny`: nobody may do anything that nobody else allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        Box::pin(std::future::ready(Opinion::none("Everything is forbidden.")))
    }
}

/// Members of these groups may do everything.
#[derive(Clone, Debug)]
pub struct PrivilegedGroups(pub Vec<String>);

impl Default for PrivilegedGroups {
    /// `system:masters`.
    fn default() -> Self {
        PrivilegedGroups(vec![crate::user::PRIVILEGED.to_owned()])
    }
}

impl Authorizer for PrivilegedGroups {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        let privileged = attributes.user.groups.iter().any(|group| self.0.contains(group));
        let opinion = if privileged { Opinion::allow() } else { Opinion::none("") };
        Box::pin(std::future::ready(opinion))
    }
}

/// Everybody may ask how the server is and what it is, as in every cluster's policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct PublicInfo;

/// What everybody may read.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

impl Authorizer for PublicInfo {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        let public = !attributes.is_resource
            && attributes.verb == "get"
            && PUBLIC.contains(&attributes.path);
        let opinion = if public { Opinion::allow() } else { Opinion::none("") };
        Box::pin(std::future::ready(opinion))
    }
}
