//! Authorization: the trait [`Authorizer`] and simple modes.
//!
//! An [`Authorizer`] decides on [`Attributes`]: it allows, denies, or has no opinion. A request that no authorizer
//! allows is refused.

mod builtin;
mod forbidden;
mod rules;
mod union;

pub use builtin::{AlwaysAllow, AlwaysDeny, PrivilegedGroups};
pub use forbidden::forbidden;
pub(crate) use forbidden::without_markup;
pub use rules::{NonResourceRule, ResourceRule, Rules};
pub use union::Union;

use crate::request_info::RequestInfo;
use kevel_component::future::Pending;
use kevel_registry::selectors::Selectors;
use kevel_registry::user::User;

/// Authorizes requests (upstream: `authorizer.Authorizer`).
pub trait Authorizer: Send + Sync + 'static {
    /// Decides on a request. Only [`Decision::Allow`] lets the request continue.
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion>;

    /// Rules of a user in a namespace, as far as this authorizer can list them.
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

/// Attributes of a request for authorization (upstream: `authorizer.Attributes`).
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The authenticated user.
    pub user: &'a User,
    /// `get`, `list`, ...; for plain paths the method in lower case.
    pub verb: &'a str,
    /// Whether the request is for a resource; if not, `path` counts.
    pub is_resource: bool,
    /// Path of the request.
    pub path: &'a str,
    /// API group of the resource.
    pub group: &'a str,
    /// API version of the resource.
    pub version: &'a str,
    /// Namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: &'a str,
    /// Resource, in the plural.
    pub resource: &'a str,
    /// Subresource.
    pub subresource: &'a str,
    /// Name of the object; empty for all.
    pub name: &'a str,
    /// Field and label selectors of the request.
    pub selectors: &'a Selectors,
}

impl<'a> Attributes<'a> {
    /// Attributes of a request.
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

/// Decision of an authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed; no other authorizer is asked.
    Allow,
    /// The request is denied; no other authorizer is asked.
    Deny,
    /// The next authorizer decides.
    NoOpinion,
}

/// A decision, with its reason and error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// The decision.
    pub decision: Decision,
    /// Reason, shown to the client.
    pub reason: String,
    /// Error of the evaluation. It does not revoke a [`Decision::Allow`].
    pub error: Option<String>,
}

impl Opinion {
    /// Decision that allows the request.
    pub fn allow() -> Self {
        Opinion { decision: Decision::Allow, reason: String::new(), error: None }
    }

    /// Denies with a reason.
    pub fn deny(reason: impl Into<String>) -> Self {
        Opinion { decision: Decision::Deny, reason: reason.into(), error: None }
    }

    /// No opinion, with a reason.
    pub fn none(reason: impl Into<String>) -> Self {
        Opinion { decision: Decision::NoOpinion, reason: reason.into(), error: None }
    }
}
