//! All roles and bindings, as they are heard of, and what follows from a change of one of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_server::user::User;

use super::index::{Grant, Grants, Index};
use crate::GROUP;
use crate::rule::{self, PolicyRule};

/// The kinds that policy is made of.
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

/// A role, or a cluster role.
#[derive(Debug, Default)]
pub(crate) struct Role {
    pub rules: Vec<PolicyRule>,
}

/// The role that a binding binds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RoleRef {
    pub kind: String,
    pub name: String,
}

impl RoleRef {
    pub fn of(binding: &Value) -> Self {
        let text = |field| binding.str_at(&["roleRef", field]).to_owned();
        RoleRef { kind: text("kind"), name: text("name") }
    }

    /// The resource that the role is one of.
    pub fn resource(&self) -> Option<&'static str> {
        match self.kind.as_str() {
            "Role" => Some("roles"),
            "ClusterRole" => Some("clusterroles"),
            _ => None,
        }
    }

    /// Where the role is to be found, for a binding in a namespace.
    fn name(&self, namespace: &str) -> Option<NamespacedName> {
        let namespace = match (self.kind.as_str(), namespace) {
            // Roles have a namespace: a binding without one finds none.
            ("Role", "") => return None,
            ("Role", namespace) => namespace,
            ("ClusterRole", _) => "",
            _ => return None,
        };
        Some(NamespacedName { namespace: namespace.into(), name: self.name.as_str().into() })
    }
}

/// Why a role's rules are not known.
impl fmt::Display for RoleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.as_str() {
            "Role" | "ClusterRole" => {
                write!(f, "{}.{GROUP} {} not found", self.kind.to_lowercase(), quote(&self.name))
            }
            kind => write!(f, "unsupported role reference kind: {}", quote(kind)),
        }
    }
}

/// A binding of either kind.
#[derive(Debug)]
pub(super) struct Binding {
    name: NamespacedName,
    role: RoleRef,
    subjects: Vec<Subject>,
}

impl Binding {
    fn read(name: NamespacedName, object: &Value) -> Self {
        let subjects = object.at(&["subjects"]).and_then(Value::as_list).unwrap_or_default();
        let subjects = subjects.iter().map(|subject| Subject::read(subject, &name.namespace));
        Binding { subjects: subjects.collect(), role: RoleRef::of(object), name }
    }

    /// The binding, and the first of its subjects that a user is, in the words of the reference.
    pub fn describe(&self, user: &User) -> String {
        let subject = self.subjects.iter().find(|subject| subject.is(user));
        let subject = subject.map(|subject| subject.description.as_str()).unwrap_or_default();
        let (kind, name) = match &*self.name.namespace {
            "" => ("ClusterRoleBinding", quote(&self.name.name)),
            namespace => ("RoleBinding", quote(&format!("{}/{namespace}", self.name.name))),
        };
        let role = quote(&self.role.name);
        format!("{kind} {name} of {} {role} to {subject}", self.role.kind)
    }
}

/// Whom a binding means.
#[derive(Debug)]
struct Subject {
    identity: Option<Identity>,
    description: String,
}

/// What a subject is to an authenticated user. A service account is a user with a certain name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    User(Arc<str>),
    Group(Arc<str>),
}

impl Subject {
    fn read(subject: &Value, binding_namespace: &str) -> Self {
        let (kind, name) = (subject.str_at(&["kind"]), subject.str_at(&["name"]));
        if kind != "ServiceAccount" {
            let identity = match kind {
                "User" => Some(Identity::User(name.into())),
                "Group" => Some(Identity::Group(name.into())),
                _ => None,
            };
            return Subject { identity, description: format!("{kind} {}", quote(name)) };
        }
        // One that names no namespace is of the binding's.
        let namespace = match subject.str_at(&["namespace"]) {
            "" => binding_namespace,
            namespace => namespace,
        };
        let user = || Identity::User(format!("system:serviceaccount:{namespace}:{name}").into());
        let description = format!("{kind} {}", quote(&format!("{name}/{namespace}")));
        Subject { identity: (!namespace.is_empty()).then(user), description }
    }

    fn is(&self, user: &User) -> bool {
        match &self.identity {
            Some(Identity::User(name)) => **name == *user.name,
            Some(Identity::Group(name)) => user.groups.iter().any(|group| **group == **name),
            None => false,
        }
    }
}

/// A namespace (empty for the cluster) and a name in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct NamespacedName {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl NamespacedName {
    /// Of a key of the cache: `namespace/name`, or `name`.
    fn of(key: &str) -> Self {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        NamespacedName { namespace: namespace.into(), name: name.into() }
    }
}

/// Roles and bindings, and the index that is made of them.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// Roles, and in the namespace that has no name cluster roles.
    roles: HashMap<NamespacedName, Arc<Role>>,
    bindings: HashMap<NamespacedName, Arc<Binding>>,
    /// The bindings to a role, whether there is such a role or not.
    referrers: HashMap<NamespacedName, BTreeSet<NamespacedName>>,
    /// The names of the bindings in a namespace that mean somebody.
    holders: HashMap<(Arc<str>, Identity), BTreeSet<Arc<str>>>,
    /// Whose grants in which namespace have to be worked out again.
    dirty: HashSet<(Arc<str>, Identity)>,
    index: Index,
}

impl Policy {
    /// Takes in an object as it is now; `None` when it is gone.
    pub fn set(&mut self, kind: Kind, key: &str, object: Option<&Value>) {
        let name = NamespacedName::of(key);
        match kind {
            Kind::Role | Kind::ClusterRole => self.set_role(name, object),
            Kind::RoleBinding | Kind::ClusterRoleBinding => self.set_binding(name, object),
        }
    }

    /// A role's rules.
    pub fn role(&self, role: &RoleRef, namespace: &str) -> Option<&Arc<Role>> {
        self.roles.get(&role.name(namespace)?)
    }

    /// The index after all that was taken in.
    pub fn index(&mut self) -> Index {
        for (namespace, identity) in std::mem::take(&mut self.dirty) {
            let grants = self.grants(&namespace, &identity);
            let scope = match &*namespace {
                "" => &mut self.index.cluster,
                _ => self.index.namespaces.entry(namespace.clone()).or_default(),
            };
            let scope = Arc::make_mut(scope);
            let (map, name) = match &identity {
                Identity::User(name) => (&mut scope.users, name),
                Identity::Group(name) => (&mut scope.groups, name),
            };
            match grants {
                Some(grants) => map.insert(name.clone(), Arc::new(grants)),
                None => map.remove(name),
            };
            if scope.is_empty() {
                self.index.namespaces.remove(&namespace);
            }
        }
        self.index.clone()
    }

    fn set_role(&mut self, name: NamespacedName, object: Option<&Value>) {
        for binding in self.referrers.get(&name).into_iter().flatten() {
            let binding = self.bindings.get(binding);
            self.dirty.extend(binding.into_iter().flat_map(|binding| holders(binding)));
        }
        match object {
            Some(role) => {
                self.roles.insert(name, Arc::new(Role { rules: rule::rules(role) }));
            }
            None => {
                self.roles.remove(&name);
            }
        }
    }

    fn set_binding(&mut self, name: NamespacedName, object: Option<&Value>) {
        if let Some(old) = self.bindings.remove(&name) {
            for holder in holders(&old) {
                shrink(&mut self.holders, &holder, &name.name);
                self.dirty.insert(holder);
            }
            if let Some(role) = old.role.name(&name.namespace) {
                shrink(&mut self.referrers, &role, &name);
            }
        }
        let Some(object) = object else { return };
        let binding = Binding::read(name.clone(), object);
        for holder in holders(&binding) {
            self.holders.entry(holder.clone()).or_default().insert(name.name.clone());
            self.dirty.insert(holder);
        }
        if let Some(role) = binding.role.name(&name.namespace) {
            self.referrers.entry(role).or_default().insert(name.clone());
        }
        self.bindings.insert(name, Arc::new(binding));
    }

    /// What somebody has in a namespace; of several bindings to one role the first by name counts.
    fn grants(&self, namespace: &Arc<str>, identity: &Identity) -> Option<Grants> {
        let names = self.holders.get(&(namespace.clone(), identity.clone()))?;
        let (mut grants, mut missing) = (Vec::new(), BTreeSet::new());
        let mut roles = HashSet::new();
        for name in names {
            let name = NamespacedName { namespace: namespace.clone(), name: name.clone() };
            let Some(binding) = self.bindings.get(&name) else { continue };
            match self.role(&binding.role, namespace) {
                Some(role) if roles.insert(Arc::as_ptr(role)) => {
                    grants.push(Grant { role: role.clone(), binding: binding.clone() });
                }
                Some(_) => {}
                None => {
                    missing.insert(binding.role.clone());
                }
            }
        }
        Some(Grants::new(grants, missing.into_iter().collect()))
    }
}

/// Whom a binding gives something, and where.
fn holders(binding: &Binding) -> impl Iterator<Item = (Arc<str>, Identity)> + '_ {
    let identities = binding.subjects.iter().filter_map(|subject| subject.identity.clone());
    identities.map(|identity| (binding.name.namespace.clone(), identity))
}

/// Takes an item out of a set, and the set out of its map when it is empty.
fn shrink<K: Eq + std::hash::Hash, V: Ord>(map: &mut HashMap<K, BTreeSet<V>>, key: &K, item: &V) {
    if let Some(set) = map.get_mut(key) {
        set.remove(item);
        if set.is_empty() {
            map.remove(key);
        }
    }
}
