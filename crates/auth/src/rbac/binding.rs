//! Bindings of roles to users, groups and service accounts.

use std::sync::Arc;

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_registry::user::User;

use super::role::RoleRef;

/// A RoleBinding or ClusterRoleBinding.
#[derive(Debug)]
pub(super) struct Binding {
    namespace: Arc<str>,
    name: Arc<str>,
    pub role: RoleRef,
    subjects: Vec<Subject>,
}

impl Binding {
    /// Reads a binding with its cache key: `namespace/name`, or `name`.
    pub fn read(key: &str, object: &Value) -> Self {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let subjects = object.list_at(&["subjects"]).iter().map(|subject| {
            kevel_compute::charge(2);
            Subject::read(subject, namespace)
        });
        let (subjects, role) = (subjects.collect(), RoleRef::of(object));
        Binding { subjects, role, namespace: namespace.into(), name: name.into() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Users and groups that the binding grants to.
    pub fn holders(&self) -> impl Iterator<Item = &Identity> {
        self.subjects.iter().filter_map(|subject| subject.identity.as_ref())
    }

    /// Description of the binding and of its first subject that matches the user, in the reference's words.
    pub fn describe(&self, user: &User) -> String {
        let subject = self.subjects.iter().find(|subject| subject.is(user));
        let subject = subject.map(|subject| subject.description.as_str()).unwrap_or_default();
        let (kind, name) = match &*self.namespace {
            "" => ("ClusterRoleBinding", quote(&self.name)),
            namespace => ("RoleBinding", quote(&format!("{}/{namespace}", self.name))),
        };
        let role = quote(&self.role.name);
        format!("{kind} {name} of {} {role} to {subject}", self.role.kind)
    }
}

/// Subject of a binding.
#[derive(Debug)]
struct Subject {
    identity: Option<Identity>,
    description: String,
}

/// User or group that a subject denotes. A service account is a user with a certain name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
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
        // A service account without a namespace is in the binding's.
        let namespace = match subject.str_at(&["namespace"]) {
            "" => binding_namespace,
            namespace => namespace,
        };
        let user = || Identity::User(format!("system:serviceaccount:{namespace}:{name}").into());
        let description = format!("{kind} {}", quote(&format!("{name}/{namespace}")));
        Subject { identity: (!namespace.is_empty()).then(user), description }
    }

    fn is(&self, user: &User) -> bool {
        kevel_compute::charge(1);
        match &self.identity {
            Some(Identity::User(name)) => **name == *user.name,
            Some(Identity::Group(name)) => {
                kevel_compute::charge(user.groups.len());
                user.groups.iter().any(|group| **group == **name)
            }
            None => false,
        }
    }
}
