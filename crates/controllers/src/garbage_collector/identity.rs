//! Identities of objects, as owner references name them.

use std::sync::Arc;

use kevel_api::value::Value;

use crate::recorder::Regarding;

/// Finalizer of foreground deletion.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of orphaning deletion.
pub(super) const ORPHAN: &str = "orphan";

/// UID of an object.
pub(super) type Uid = Arc<str>;

/// Coordinates of an object. An owner's namespace is that of the reference, and may be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectIdentity {
    // The order of the fields is that in which alternatives are tried.
    pub kind: Arc<str>,
    pub api_version: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
}

/// As messages show it.
impl std::fmt::Display for ObjectIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ObjectIdentity { kind, api_version, namespace, name, uid } = self;
        write!(f, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}

impl ObjectIdentity {
    /// Reference of Events.
    pub fn regarding(&self) -> Regarding {
        Regarding {
            api_version: self.api_version.to_string(),
            kind: self.kind.to_string(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
            uid: self.uid.to_string(),
        }
    }
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnerReference {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
    /// `blockOwnerDeletion`
    pub blocks: bool,
}

impl OwnerReference {
    /// Reads an owner reference.
    pub fn read(reference: &Value) -> Self {
        let text = |field| Arc::from(reference.str_at(&[field]));
        let blocks = reference.at(&["blockOwnerDeletion"]).and_then(Value::as_bool);
        OwnerReference {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            blocks: blocks.unwrap_or(false),
        }
    }

    /// ObjectIdentity of the owner of an object in a namespace.
    pub fn identity(&self, namespace: &Arc<str>) -> ObjectIdentity {
        ObjectIdentity {
            kind: self.kind.clone(),
            api_version: self.api_version.clone(),
            namespace: namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// Whether the reference names this identity, apart from the namespace.
    pub fn matches(&self, identity: &ObjectIdentity) -> bool {
        self.uid == identity.uid
            && self.name == identity.name
            && self.kind == identity.kind
            && self.api_version == identity.api_version
    }
}

/// Owner references of an object.
pub(super) fn owners(object: &Value) -> Vec<OwnerReference> {
    object.list_at(&["metadata", "ownerReferences"]).iter().map(OwnerReference::read).collect()
}

/// Whether an object has a finalizer.
pub(super) fn has_finalizer(object: &Value, name: &str) -> bool {
    let finalizers = object.list_at(&["metadata", "finalizers"]);
    finalizers.iter().any(|finalizer| finalizer.as_str() == Some(name))
}

/// Whether an object is being deleted.
pub(super) fn is_deleted(object: &Value) -> bool {
    !object.str_at(&["metadata", "deletionTimestamp"]).is_empty()
}

/// State of an object as far as garbage collection goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObservedObject {
    pub identity: ObjectIdentity,
    pub owners: Vec<OwnerReference>,
    pub being_deleted: bool,
    /// Being deleted, with the finalizer of foreground deletion.
    pub deleting_dependents: bool,
    /// Being deleted, with the finalizer of orphaning deletion.
    pub orphaning: bool,
}

impl ObservedObject {
    /// Reads an object's metadata.
    pub fn read(object: &Value, api_version: &Arc<str>, kind: &Arc<str>) -> Self {
        let text = |field| Arc::from(object.str_at(&["metadata", field]));
        let being_deleted = is_deleted(object);
        ObservedObject {
            identity: ObjectIdentity {
                kind: kind.clone(),
                api_version: api_version.clone(),
                namespace: text("namespace"),
                name: text("name"),
                uid: text("uid"),
            },
            owners: owners(object),
            being_deleted,
            deleting_dependents: being_deleted && has_finalizer(object, FOREGROUND),
            orphaning: being_deleted && has_finalizer(object, ORPHAN),
        }
    }

    /// Whether the graph needs no node for the object unless another one refers to it.
    pub fn is_plain(&self) -> bool {
        self.owners.is_empty() && !self.deleting_dependents && !self.orphaning
    }
}
