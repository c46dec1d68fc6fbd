//! Policy: all roles and bindings, updated by events, with the index of them.

use std::collections::HashMap;
use std::sync::Arc;

use kevel_api::value::Value;

use super::binding::{Binding, Identity};
use super::index::{Grants, Index, Scope};
use super::role::Role;

/// RBAC kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Role,
    RoleBinding,
    ClusterRole,
    ClusterRoleBinding,
}

impl Kind {
    pub const ALL: [Kind; 4] =
        [Kind::Role, Kind::RoleBinding, Kind::ClusterRole, Kind::ClusterRoleBinding];

    pub fn plural(self) -> &'static str {
        match self {
            Kind::Role => "roles",
            Kind::RoleBinding => "rolebindings",
            Kind::ClusterRole => "clusterroles",
            Kind::ClusterRoleBinding => "clusterrolebindings",
        }
    }
}

/// Roles and bindings with their index. The cost of a change depends on the changed object only.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// Bindings by cache key: `namespace/name`, or `name`.
    bindings: HashMap<Box<str>, Arc<Binding>>,
    /// Number of role changes so far.
    version: u64,
    index: Index,
}

impl Policy {
    /// Sets the present state of an object; `None` if it was deleted.
    pub fn set(&mut self, kind: Kind, key: &str, object: Option<&Value>) {
        match kind {
            Kind::Role | Kind::ClusterRole => self.set_role(key, object.map(Role::read)),
            Kind::RoleBinding | Kind::ClusterRoleBinding => {
                self.set_binding(key, object.map(|object| Binding::read(key, object)));
            }
        }
    }

    /// Present index.
    pub fn index(&self) -> Index {
        self.index.clone()
    }

    fn set_role(&mut self, key: &str, role: Option<Role>) {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        self.version += 1;
        let version = self.version;
        self.change(namespace, |scope| {
            kevel_compute::charge(scope.roles.by_name.len());
            let roles = Arc::make_mut(&mut scope.roles);
            roles.version = version;
            match role {
                Some(role) => roles.by_name.insert(name.into(), Arc::new(role)),
                None => roles.by_name.remove(name),
            };
        });
    }

    fn set_binding(&mut self, key: &str, binding: Option<Binding>) {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let binding = binding.map(Arc::new);
        let old = match &binding {
            Some(binding) => self.bindings.insert(key.into(), binding.clone()),
            None => self.bindings.remove(key),
        };
        self.change(namespace, |scope| {
            for holder in old.iter().flat_map(|old| old.holders()) {
                replace(scope, holder, |held| held.without(name));
            }
            let Some(binding) = &binding else { return };
            for holder in binding.holders() {
                replace(scope, holder, |held| Some(held.with(binding)));
            }
        });
    }

    fn change(&mut self, namespace: &str, change: impl FnOnce(&mut Scope)) {
        if namespace.is_empty() {
            return change(&mut self.index.cluster);
        }
        let scope = self.index.namespaces.entry(namespace.into()).or_default();
        change(scope);
        if scope.is_empty() {
            self.index.namespaces.remove(namespace);
        }
    }
}

/// Replaces the grants of a user or group in a scope; `None` removes them.
fn replace(scope: &mut Scope, holder: &Identity, change: impl FnOnce(&Grants) -> Option<Grants>) {
    kevel_compute::charge(4);
    let (holders, name) = match holder {
        Identity::User(name) => (&mut scope.users, name),
        Identity::Group(name) => (&mut scope.groups, name),
    };
    let holders = Arc::make_mut(holders);
    let changed = match holders.get(name) {
        Some(held) => change(held),
        None => change(&Grants::default()),
    };
    match changed {
        Some(held) => holders.insert(name.clone(), Arc::new(held)),
        None => holders.remove(name),
    };
}
