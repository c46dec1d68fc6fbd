//! Authorizers without state.

use super::{Attributes, Authorizer, Opinion, Rules};
use kevel_component::future::Pending;
use kevel_registry::user::User;

/// `--authorization-mode=AlwaysAllow`: allows every request.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        Box::pin(std::future::ready(Opinion::allow()))
    }

    fn rules_for(&self, _: &User, _: &str) -> Rules {
        Rules::everything()
    }
}

/// `--authorization-mode=AlwaysDeny`: denies requests that no other authorizer allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        Box::pin(std::future::ready(Opinion::none("Everything is forbidden.")))
    }
}

/// Allows members of these groups everything.
#[derive(Clone, Debug)]
pub struct PrivilegedGroups(pub Vec<String>);

impl Default for PrivilegedGroups {
    /// `system:masters`.
    fn default() -> Self {
        PrivilegedGroups(vec![kevel_registry::user::PRIVILEGED.to_owned()])
    }
}

impl Authorizer for PrivilegedGroups {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        let privileged = attributes.user.groups.iter().any(|group| self.0.contains(group));
        let opinion = if privileged { Opinion::allow() } else { Opinion::none("") };
        Box::pin(std::future::ready(opinion))
    }
}
