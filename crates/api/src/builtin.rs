//! Built-in kinds: tables that the build script generates from `api/`.

use std::borrow::Cow;

use compact_str::CompactString;

use crate::schema::*;

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

static TABLE: Table = Table {
    types: Cow::Borrowed(&TYPES),
    fields: Cow::Borrowed(&FIELDS),
    members: Cow::Borrowed(&MEMBERS),
    defaults: Cow::Borrowed(&DEFAULTS),
    merges: Cow::Borrowed(&MERGES),
    names: Cow::Borrowed(&NAMES),
    elements: Cow::Borrowed(&[]),
    metadata: Cow::Borrowed(&[]),
    values: Cow::Borrowed(&[]),
    keys: Cow::Borrowed(&KEYS),
    text: Cow::Borrowed(TEXT),
};

/// A kind in one of the groups and versions that use it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version in the group.
    pub version: &'static str,
    /// The kind.
    pub name: &'static str,
    ty: TypeId,
    deprecation: &'static str,
}

impl Kind {
    /// Schema of its objects.
    pub fn schema(&self) -> Schema<'static> {
        Schema::new(&TABLE, self.ty)
    }
}

/// A resource or subresource that the reference serves.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version in the group.
    pub version: &'static str,
    /// Path, such as `deployments` or `deployments/scale`.
    pub path: &'static str,
    /// Group of the kind, which may differ for a subresource.
    pub kind_group: &'static str,
    /// The version of the kind.
    pub kind_version: &'static str,
    /// Kind of the body.
    pub kind: &'static str,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// Singular name.
    pub singular: &'static str,
    /// Short names for `kubectl`.
    pub short: &'static [&'static str],
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
    /// Supported verbs.
    pub verbs: &'static [&'static str],
    /// Whether the resource is served by default.
    pub on: bool,
    /// Version of Kubernetes that introduced the kind, if it is not older than any that can be emulated.
    pub introduced: Option<(u32, u32)>,
    /// First version of Kubernetes that does not serve the kind any more.
    pub removed: Option<(u32, u32)>,
}

/// The table of all built-in types.
pub const fn table() -> &'static Table {
    &TABLE
}

/// Name of a built-in type with its definition file: `core.v1.Pod`. Empty for an unnamed type.
///
/// ```
/// let pod = kevel_api::builtin::schema("", "v1", "Pod").unwrap();
/// assert_eq!(kevel_api::builtin::type_name(pod.id()), "core.v1.Pod");
/// ```
pub fn type_name(id: TypeId) -> &'static str {
    TYPE_NAMES.get((id & !BUILTIN) as usize).map(|name| TABLE.str(*name)).unwrap_or_default()
}

/// All kinds, sorted by group, version and name.
pub fn kinds() -> &'static [Kind] {
    &KINDS
}

/// All resources, by group, version and path.
pub fn resources() -> &'static [Resource] {
    &RESOURCES
}

/// Deprecation warning for a kind, if it is deprecated.
///
/// ```
/// use kevel_api::builtin::deprecation;
/// assert_eq!(deprecation("", "v1", "ComponentStatus"), Some("v1 ComponentStatus is deprecated in v1.19+"));
/// assert_eq!(deprecation("", "v1", "Pod"), None);
/// ```
pub fn deprecation(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    Some(find(group, version, kind)?.deprecation).filter(|text| !text.is_empty())
}

/// A kind's schema.
///
/// ```
/// let pod = kevel_api::builtin::schema("", "v1", "Pod").unwrap();
/// assert!(pod.field("spec").is_some());
/// ```
pub fn schema(group: &str, version: &str, kind: &str) -> Option<Schema<'static>> {
    Some(find(group, version, kind)?.schema())
}

fn find(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    let wanted = (group, version, kind);
    let found = KINDS.binary_search_by(|k| (k.group, k.version, k.name).cmp(&wanted));
    KINDS.get(found.ok()?)
}

/// Schema of a type in the definitions, by its name with the definition file. In a constant, an unknown name fails the
/// build.
///
/// ```
/// use kevel_api::builtin::defined;
/// use kevel_api::schema::Schema;
/// static TABLE: Schema<'static> = defined("meta.v1.Table");
/// assert!(TABLE.field("rows").is_some());
/// ```
pub const fn defined(name: &str) -> Schema<'static> {
    let (name, text) = (name.as_bytes(), TEXT.as_bytes());
    let mut id = 0;
    while id < TYPE_NAMES.len() {
        let Str(start, length) = TYPE_NAMES[id];
        let mut same = length as usize == name.len();
        let mut at = 0;
        while same && at < name.len() {
            same = text[start as usize + at] == name[at];
            at += 1;
        }
        if same {
            return Schema::new(&TABLE, id as TypeId);
        }
        id += 1;
    }
    panic!("no type of this name is defined in api/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_know_their_facts() {
        let spec = schema("apps", "v1", "Deployment").unwrap().field("spec").unwrap().schema();
        let replicas = spec.field("replicas").unwrap();
        assert_eq!(replicas.schema().scalar(), Some(Scalar::Int32));
        assert!(replicas.pointer() && !replicas.required() && !replicas.always());
        let selector = spec.field("selector").unwrap();
        assert!(selector.pointer() && selector.required() && selector.always());
        assert_eq!(spec.as_struct().unwrap().name(), "DeploymentSpec");
    }

    #[test]
    fn inlined_fields_stand_among_their_structs_own() {
        let spec = schema("", "v1", "Pod").unwrap().field("spec").unwrap().schema();
        let volume = spec.field("volumes").unwrap().schema().item().unwrap();
        assert_eq!(spec.field("volumes").unwrap().schema().list_keys().unwrap().count(), 1);
        assert!(volume.field("emptyDir").is_some() && volume.field("volumeSource").is_none());
        let members = volume.as_struct().unwrap().members();
        assert!(matches!(members[1], Member { tag: 2, role: Role::Inline(_) }));
    }

    #[test]
    fn every_served_resource_speaks_a_kind_we_define() {
        for r in resources() {
            // Connect options (proxy, exec) are sent as query parameters.
            let known = schema(r.kind_group, r.kind_version, r.kind).is_some();
            assert!(known, "{}/{} {} speaks {}", r.group, r.version, r.path, r.kind);
        }
    }
}
