//! Role-based access control: roles hold rules, bindings give roles to users, groups and service
//! accounts, in a namespace or everywhere.
//!
//! Roles and bindings are followed in the cache. From them an index is kept, subject to grants to
//! rules: a change recomputes the entries that it affects, and decisions read the index without a lock.

mod binding;
mod follow;
mod index;
mod lookup;
mod policy;
mod role;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::authorization::{
    self, Attributes, Authorizer, Decision, NonResourceRule, Opinion, ResourceRule,
};
use tokio::sync::{Mutex, watch};

use self::follow::Following;
pub use self::follow::Sources;
use self::index::{HeldRoles, Index};
pub(crate) use self::role::{Role, RoleRef};
use crate::rule::{self, PolicyRule, TooMany};

/// The authorizer. By default one that knows of no role, and allows nothing.
#[derive(Debug)]
pub struct Rbac {
    /// Empty until everything is loaded.
    index: ArcSwap<Index>,
    /// Locked while objects are decoded, which is charged: by the server's own tasks alone, which need no permit.
    following: Mutex<Following>,
    sources: Option<Sources>,
    synced: watch::Sender<bool>,
}

impl Default for Rbac {
    fn default() -> Self {
        Rbac {
            index: ArcSwap::default(),
            following: Mutex::default(),
            sources: None,
            synced: watch::Sender::new(false),
        }
    }
}

impl Rbac {
    /// An authorizer by the roles and bindings of these sources, once it [follows](Self::follow) them.
    pub fn new(sources: Sources) -> Self {
        Rbac { sources: Some(sources), ..Rbac::default() }
    }

    /// Whether everything is loaded.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until everything is loaded.
    pub async fn synced(&self) {
        // The sender lives as long as this.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// The rules that a user holds in a namespace.
    pub fn rules_of(&self, user: &User, namespace: &str) -> Rules {
        let index = self.index.load();
        let (mut held, mut roles, mut missing) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut known = HashSet::new();
        for one in index.of(user, namespace) {
            roles.extend(one.roles().filter(|role| known.insert(Arc::as_ptr(role))));
            missing.extend(one.missing.iter().cloned());
            held.push(one);
        }
        Rules { held, roles, missing: missing.into_iter().collect() }
    }

    /// Whether something is allowed. Does not wait for anything.
    pub fn decide(&self, asked: &Attributes<'_>) -> Opinion {
        let index = self.index.load();
        let mut missing = Vec::new();
        for held in index.of(asked.user, asked.namespace) {
            if let Some(binding) = held.allowing(asked) {
                let reason = format!("RBAC: allowed by {}", binding.describe(asked.user));
                return Opinion { decision: Decision::Allow, reason, error: None };
            }
            missing.extend(held.missing.iter().cloned());
        }
        match aggregate(missing.iter().map(RoleRef::to_string)) {
            Some(errors) => Opinion::none(format!("RBAC: {errors}")),
            None => Opinion::none(""),
        }
    }

    /// The rules of a role, for a binding in a namespace.
    pub(crate) fn role(&self, role: &RoleRef, namespace: &str) -> Option<Arc<Role>> {
        self.index.load().role(role, namespace).cloned()
    }
}

impl Authorizer for Rbac {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        Box::pin(std::future::ready(self.decide(attributes)))
    }

    fn rules_for(&self, user: &User, namespace: &str) -> authorization::Rules {
        let held = self.rules_of(user, namespace);
        let mut rules = authorization::Rules::default();
        for rule in held.iter() {
            kevel_compute::charge(4);
            if !rule.resources.is_empty() {
                rules.resource_rules.push(ResourceRule {
                    verbs: rule.verbs.clone(),
                    api_groups: rule.api_groups.clone(),
                    resources: rule.resources.clone(),
                    resource_names: rule.resource_names.clone(),
                });
            }
            if !rule.non_resource_urls.is_empty() {
                rules.non_resource_rules.push(NonResourceRule {
                    verbs: rule.verbs.clone(),
                    non_resource_urls: rule.non_resource_urls.clone(),
                });
            }
        }
        rules.errors.extend(held.error());
        rules
    }
}

/// Rules that a user holds in a namespace.
#[derive(Clone, Debug)]
pub struct Rules {
    held: Vec<Arc<HeldRoles>>,
    roles: Vec<Arc<Role>>,
    missing: Vec<RoleRef>,
}

impl Rules {
    /// The rules, of all roles.
    pub fn iter(&self) -> impl Iterator<Item = &PolicyRule> + Clone {
        self.roles.iter().flat_map(|role| &role.rules)
    }

    /// The single permissions of `wanted` that none of the rules covers.
    pub(crate) fn uncovered(&self, wanted: &[PolicyRule]) -> Result<Vec<PolicyRule>, TooMany> {
        let large = self.roles.iter().filter(|role| role.is_large()).map(|role| role.coverage());
        let small = self.held.iter().map(|held| held.coverage_of_small());
        rule::uncovered(large.chain(small), wanted)
    }

    /// Roles that are bound and not there.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &RoleRef> {
        self.missing.iter()
    }

    /// Reason why the rules may be incomplete: `evaluationError`.
    pub fn error(&self) -> Option<String> {
        aggregate(self.missing.iter().map(RoleRef::to_string))
    }
}

/// Several errors as one, in the words of the reference: `[first, second]`.
pub(crate) fn aggregate(errors: impl Iterator<Item = String>) -> Option<String> {
    let mut known = HashSet::new();
    let mut errors: Vec<String> = errors.filter(|error| known.insert(error.clone())).collect();
    match errors.len() {
        0 | 1 => errors.pop(),
        _ => Some(format!("[{}]", errors.join(", "))),
    }
}
