//! Index of users and groups to the rules they hold, as decisions read it.
//!
//! Bindings and the rules of roles are apart: a role is replaced without a look at its subjects, and a binding without a
//! look at rules. The roles that a user or group has are worked out at its first request, and kept until a role within
//! reach changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwapOption;
use kevel_registry::user::User;
use kevel_server::authorization::Attributes;

use super::binding::Binding;
use super::lookup::Lookup;
use super::role::{Role, RoleRef};
use crate::rule::Coverage;

/// Beyond this many small roles of one subject, their rules are looked up rather than searched for.
pub(super) const SEARCHED_ROLES: usize = 16;

/// All roles and bindings at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub cluster: Scope,
    pub namespaces: HashMap<Arc<str>, Scope>,
}

/// Roles and bindings of one namespace, or of the whole cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub roles: Arc<Roles>,
    pub users: Arc<HashMap<Arc<str>, Arc<Grants>>>,
    pub groups: Arc<HashMap<Arc<str>, Arc<Grants>>>,
}

/// Roles by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Roles {
    /// Number that changes with them.
    pub version: u64,
    pub by_name: HashMap<Arc<str>, Arc<Role>>,
}

impl Scope {
    pub fn is_empty(&self) -> bool {
        self.roles.by_name.is_empty() && self.users.is_empty() && self.groups.is_empty()
    }
}

impl Index {
    /// The roles of a user in a namespace: first those of ClusterRoleBindings, then those of RoleBindings.
    pub fn of<'i>(
        &'i self,
        user: &'i User,
        namespace: &str,
    ) -> impl Iterator<Item = Arc<HeldRoles>> + use<'i> {
        let local = self.namespaces.get(namespace).filter(|_| !namespace.is_empty());
        let scopes = [(None, Some(&self.cluster)), (local, local)];
        scopes.into_iter().filter_map(|(own, scope)| Some((own, scope?))).flat_map(
            move |(own, scope)| {
                let bound = scope.users.get(user.name.as_str()).into_iter();
                let groups = user.groups.iter().inspect(|_| kevel_compute::charge(1));
                let shared = groups.filter_map(|group| scope.groups.get(group.as_str()));
                let own = own.map(|scope| &*scope.roles);
                bound.chain(shared).map(move |grants| grants.held(own, &self.cluster.roles))
            },
        )
    }

    /// A role, for a binding in a namespace.
    pub fn role(&self, role: &RoleRef, namespace: &str) -> Option<&Arc<Role>> {
        let own = self.namespaces.get(namespace).map(|scope| &*scope.roles);
        find(role, own, &self.cluster.roles)
    }
}

/// The role that is meant in a namespace with these roles. Roles have a namespace: a binding without one finds none.
fn find<'r>(role: &RoleRef, own: Option<&'r Roles>, cluster: &'r Roles) -> Option<&'r Arc<Role>> {
    match role.kind.as_str() {
        "Role" => own?.by_name.get(role.name.as_str()),
        "ClusterRole" => cluster.by_name.get(role.name.as_str()),
        _ => None,
    }
}

/// The bindings that mean one user or group in one scope.
#[derive(Debug, Default)]
pub(super) struct Grants {
    /// Bindings in the order of their names.
    bindings: Vec<Arc<Binding>>,
    held: ArcSwapOption<HeldRoles>,
}

impl Grants {
    /// Copy of the entry with a binding added, or replaced if one has its name.
    pub fn with(&self, binding: &Arc<Binding>) -> Self {
        kevel_compute::charge(self.bindings.len() / 8);
        let mut bindings = self.bindings.clone();
        match bindings.binary_search_by(|known| known.name().cmp(binding.name())) {
            Ok(at) => bindings[at] = binding.clone(),
            Err(at) => bindings.insert(at, binding.clone()),
        }
        Grants { bindings, held: ArcSwapOption::empty() }
    }

    /// Copy of the entry without a binding; `None` if that was the last.
    pub fn without(&self, name: &str) -> Option<Self> {
        kevel_compute::charge(self.bindings.len() / 8);
        let others = self.bindings.iter().filter(|known| known.name() != name);
        let bindings: Vec<_> = others.cloned().collect();
        (!bindings.is_empty()).then(|| Grants { bindings, held: ArcSwapOption::empty() })
    }

    /// The roles that the bindings name, found among the roles of a namespace and of the cluster.
    fn held(&self, own: Option<&Roles>, cluster: &Roles) -> Arc<HeldRoles> {
        let versions = (own.map_or(0, |own| own.version), cluster.version);
        if let Some(held) = &*self.held.load()
            && held.versions == versions
        {
            return held.clone();
        }
        let held = Arc::new(HeldRoles::new(&self.bindings, own, cluster, versions));
        self.held.store(Some(held.clone()));
        held
    }
}

/// Roles of one user or group in one scope: each role once, whatever the number of bindings to it.
#[derive(Debug)]
pub(super) struct HeldRoles {
    /// Versions of the namespace's roles, and of the cluster's.
    versions: (u64, u64),
    grants: Vec<Grant>,
    /// Roles that are bound and not there.
    pub missing: Vec<RoleRef>,
    /// Index of the rules of small roles, if there are many.
    lookup: Option<Lookup>,
    /// Positions of the other grants.
    searched: Vec<usize>,
    /// Coverage of the rules of small roles, worked out at the first escalation check.
    coverage: OnceLock<Coverage>,
}

/// A role, and a binding to it. The role goes when it is replaced, even if its holder sends no further request.
#[derive(Debug)]
struct Grant {
    role: Weak<Role>,
    binding: Arc<Binding>,
}

impl HeldRoles {
    /// Builds the entry of a subject. Of several bindings to one role the first by name counts.
    fn new(
        bindings: &[Arc<Binding>],
        own: Option<&Roles>,
        cluster: &Roles,
        versions: (u64, u64),
    ) -> Self {
        let (mut roles, mut missing, mut known) = (Vec::new(), BTreeSet::new(), HashSet::new());
        for binding in bindings {
            kevel_compute::charge(2);
            match find(&binding.role, own, cluster) {
                Some(role) if known.insert(Arc::as_ptr(role)) => roles.push((role, binding)),
                Some(_) => {}
                None => {
                    missing.insert(binding.role.clone());
                }
            }
        }
        let is_large = |at: &usize| roles.get(*at).is_some_and(|(role, _)| role.is_large());
        let (large, small): (Vec<usize>, Vec<usize>) = (0..roles.len()).partition(is_large);
        let (lookup, searched) = match small.len() > SEARCHED_ROLES {
            true => {
                let rules = |at: usize| Some((at, roles.get(at)?.0.rules.as_slice()));
                (Some(Lookup::new(small.into_iter().filter_map(rules))), large)
            }
            false => (None, (0..roles.len()).collect()),
        };
        let grant = |(role, binding): &(&Arc<Role>, &Arc<Binding>)| Grant {
            role: Arc::downgrade(role),
            binding: Arc::clone(binding),
        };
        let grants = roles.iter().map(grant).collect();
        let missing = missing.into_iter().collect();
        HeldRoles { versions, grants, missing, lookup, searched, coverage: OnceLock::new() }
    }

    /// The roles, while the index that they were found in is there.
    pub fn roles(&self) -> impl Iterator<Item = Arc<Role>> {
        self.grants.iter().filter_map(|grant| grant.role.upgrade())
    }

    /// The binding by which something is allowed.
    pub fn allowing(&self, asked: &Attributes<'_>) -> Option<&Arc<Binding>> {
        let looked_up = self.lookup.as_ref().and_then(|lookup| {
            let mut candidates = lookup.candidates(asked);
            let place = candidates.find(|place| {
                let role = self.grants.get(place.grant).and_then(|grant| grant.role.upgrade());
                let rule = role.as_ref().and_then(|role| role.rules.get(place.rule));
                rule.is_some_and(|rule| rule.allows(asked))
            })?;
            self.grants.get(place.grant)
        });
        let allows = |grant: &&Grant| grant.role.upgrade().is_some_and(|role| role.allows(asked));
        let mut searched = self.searched.iter().filter_map(|at| self.grants.get(*at));
        looked_up.or_else(|| searched.find(allows)).map(|grant| &grant.binding)
    }

    /// Coverage of the rules of all small roles.
    pub fn coverage_of_small(&self) -> &Coverage {
        kevel_compute::filled(&self.coverage, || {
            let roles: Vec<_> = self.roles().filter(|role| !role.is_large()).collect();
            Coverage::new(roles.iter().flat_map(|role| &role.rules))
        })
    }
}
