//! Authorization: the seam ([`Authorizer`]) and the simple modes.
//!
//! An [`Authorizer`] is asked about [`Attributes`]. It allows, denies, or has no opinion; when all
//! have been asked and none has allowed, the request is refused.

mod builtin;
mod forbidden;
mod rules;
mod union;

pub use builtin::{AlwaysAllow, AlwaysDeny, PrivilegedGroups};
pub use forbidden::forbidden;
pub(crate) use forbidden::without_markup;
pub use rules::{NonResourceRule, ResourceRule, Rules};
pub use union::Union;

use crate::future::Pending;
use crate::request_info::RequestInfo;
use crate::selectors::Selectors;
use crate::user::User;

/// Judges requests.
pub trait Authorizer: Send + Sync + 'static {
    /// What this authorizer has to say. The server goes on with [`Decision::Allow`] only.
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion>;

    /// All that this authorizer would allow a user in a namespace.
    fn rules_for(&self, _user: &User, _namespace: &str) -> Rules {
        Rules::default()
    }
}

impl<A: Authorizer + ?Sized> Authorizer for std::sync::Arc<A> {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        (**self).authorize(attributes)
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        (**self).rules_for(user, namespace)
    }
}

/// What an authorizer decides on: the user, and what they want to do.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The authenticated user.
    pub user: &'a User,
    /// `get`, `list`, ...; for plain paths the method in lower case.
    pub verb: &'a str,
    /// Whether this is a request for a resource; `path` counts otherwise.
    pub is_resource: bool,
    /// The request's path.
    pub path: &'a str,
    /// The resource's group.
    pub group: &'a str,
    /// The resource's version.
    pub version: &'a str,
    /// Empty for what is not in a namespace, and for all namespaces.
    pub namespace: &'a str,
    /// The resource, in the plural.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The object's name; empty for all.
    pub name: &'a str,
    /// What a request for many objects is narrowed to.
    pub selectors: &'a Selectors,
}

impl<'a> Attributes<'a> {
    /// The attributes of a request.
    pub fn of(info: &'a RequestInfo, user: &'a User) -> Self {
        Attributes {
            user,
            verb: info.verb.as_str(),
            is_resource: info.is_resource,
            path: &info.path,
            group: &info.group,
            version: &info.version,
            namespace: &info.namespace,
            resource: &info.resource,
            subresource: &info.subresource,
            name: &info.name,
            selectors: &info.selectors,
        }
    }
}

/// What an authorizer decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request may go on, whatever the others think.
    Allow,
    /// The request may not go on, whatever the others think.
    Deny,
    /// The next authorizer decides.
    NoOpinion,
}

/// A decision, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// What is decided.
    pub decision: Decision,
    /// Why; the client reads it.
    pub reason: String,
    /// What kept the authorizer from knowing better. It does not undo an [`Decision::Allow`].
    pub error: Option<String>,
}

impl Opinion {
    /// Yes.
    pub fn allow() -> Self {
        Opinion { decision: Decision::Allow, reason: String::new(), error: None }
    }

    /// No.
    pub fn deny(reason: impl Into<String>) -> Self {
        Opinion { decision: Decision::Deny, reason: reason.into(), error: None }
    }

    /// Nothing to say.
    pub fn none(reason: impl Into<String>) -> Self {
        Opinion { decision: Decision::NoOpinion, reason: reason.into(), error: None }
    }
}
