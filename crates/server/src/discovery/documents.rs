//! Discovery documents as trees: groups, versions and resources, one by one and aggregated.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::schema::Schema;
use kevel_api::value::{Map, Value};

use super::priority::{self, Priority};
use super::storage_version_hash;
use super::{Group, RemoteVersion};
use kevel_registry::resource::{Resource, Rows, Subresource, api_version};

/// Resources of all servers of the chain at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub tables: Vec<Arc<Rows>>,
    /// Groups in order, the core group included, each with its versions, preferred first.
    pub groups: Vec<(String, Vec<String>)>,
}

impl Snapshot {
    pub fn new(tables: Vec<Arc<Rows>>) -> Self {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for (group, versions) in tables.iter().flat_map(|rows| rows.groups()) {
            kevel_compute::charge(1 + groups.len() / 8);
            let position = groups.iter().position(|(name, _)| name == group);
            let position = position.unwrap_or_else(|| {
                groups.push((group.clone(), Vec::new()));
                groups.len() - 1
            });
            let known = &mut groups[position].1;
            known.extend(
                versions.iter().filter(|v| !known.contains(v)).cloned().collect::<Vec<_>>(),
            );
        }
        groups.sort_by(|(a, _), (b, _)| priority::compare_groups(a, b));
        for (group, versions) in &mut groups {
            versions.sort_by(|a, b| priority::compare_versions(group, a, b));
        }
        Snapshot { tables, groups }
    }

    /// Whether the snapshot is still current for these tables.
    pub fn is_of<'r>(&self, tables: impl ExactSizeIterator<Item = &'r Arc<Rows>>) -> bool {
        self.tables.len() == tables.len()
            && self.tables.iter().zip(tables).all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
    }

    /// Resources of a group and version, by plural: those of the first server that has any, which answers all requests
    /// to the group version.
    pub fn resources(&self, group: &str, version: &str) -> BTreeMap<&str, &Arc<Resource>> {
        let mut tables = self.tables.iter().filter_map(|rows| rows.version(group, version));
        let first = tables.find(|rows| !rows.is_empty()).into_iter().flatten();
        first.map(|(plural, resource)| (plural.as_str(), resource)).collect()
    }

    /// Whether requests to a version are answered: of a group that several servers have, only those to versions of the
    /// first.
    pub fn is_served(&self, group: &str, version: &str) -> bool {
        let has_group = |rows: &&Arc<Rows>| rows.groups().iter().any(|(name, _)| name == group);
        let first = self.tables.iter().find(has_group);
        first.is_some_and(|rows| rows.version(group, version).is_some_and(|rows| !rows.is_empty()))
    }

    pub fn versions(&self, group: &str) -> Option<&[String]> {
        let found = self.groups.iter().find(|(name, _)| name == group);
        found.map(|(_, versions)| versions.as_slice())
    }
}

/// Schema of a document's kind.
pub(super) fn schema(group: &str, version: &str, kind: &str) -> Schema<'static> {
    // The kinds of documents are always defined; any other would be encoded as an empty object.
    let found = builtin::schema(group, version, kind);
    found.unwrap_or_else(|| Schema::new(builtin::table(), u32::MAX >> 1))
}

/// `/api`
pub(super) fn api_versions(versions: &[String], addresses: Vec<(String, String)>) -> Value {
    let address = |(cidr, address): (String, String)| {
        object([("clientCIDR", cidr.as_str().into()), ("serverAddress", address.as_str().into())])
    };
    object([
        ("kind", "APIVersions".into()),
        ("versions", strings(versions)),
        ("serverAddressByClientCIDRs", list(addresses.into_iter().map(address))),
    ])
}

/// `/apis`
pub(super) fn api_group_list<'g>(groups: impl Iterator<Item = &'g Group>) -> Value {
    let groups = groups.filter(|listed| !listed.name.is_empty());
    let groups = groups.map(|listed| Value::Map(group(&listed.name, &listed.versions)));
    object([("kind", "APIGroupList".into()), ("apiVersion", "v1".into()), ("groups", list(groups))])
}

/// `/apis/<group>`
pub(super) fn api_group(name: &str, versions: &[String]) -> Value {
    let mut group = group(name, versions);
    group.insert("kind", "APIGroup".into());
    group.insert("apiVersion", "v1".into());
    Value::Map(group)
}

fn group(name: &str, versions: &[String]) -> Map {
    let version = |version: &String| {
        let full = api_version(name, version);
        object([("groupVersion", full.as_str().into()), ("version", version.as_str().into())])
    };
    let preferred = versions.first().map_or(Value::Null, version);
    Map::from_iter([
        ("name", name.into()),
        ("versions", list(versions.iter().map(version))),
        ("preferredVersion", preferred),
    ])
}

/// `/api/v1`, `/apis/<group>/<version>`
pub(super) fn api_resource_list(snapshot: &Snapshot, group: &str, version: &str) -> Value {
    let mut entries = Vec::new();
    for resource in snapshot.resources(group, version).values() {
        entries.push(api_resource(resource));
        let subs = subresources(resource);
        entries.extend(subs.into_iter().map(|(name, sub)| api_subresource(resource, name, sub)));
    }
    let mut document = Map::from_iter([
        ("kind", "APIResourceList".into()),
        ("groupVersion", api_version(group, version).as_str().into()),
        ("resources", list(entries)),
    ]);
    // `/api/v1` has no apiVersion, as in the reference.
    if !group.is_empty() {
        document.insert("apiVersion", "v1".into());
    }
    Value::Map(document)
}

fn api_resource(resource: &Resource) -> Value {
    let hash = storage_version_hash::of(resource);
    let hash = hash.filter(|_| resource.conventions.storage_version_hash).unwrap_or_default();
    object([
        ("name", resource.plural.as_str().into()),
        ("singularName", resource.singular.as_str().into()),
        ("namespaced", resource.namespaced.into()),
        ("kind", resource.kind.kind.as_str().into()),
        ("verbs", strings(&resource.verbs)),
        ("shortNames", strings(&resource.short_names)),
        ("categories", strings(&resource.categories)),
        ("storageVersionHash", hash.as_str().into()),
    ])
}

fn api_subresource(resource: &Resource, name: &str, sub: &Subresource) -> Value {
    let (group, version) = foreign(resource, &sub.kind);
    object([
        ("name", format!("{}/{name}", resource.plural).as_str().into()),
        ("namespaced", resource.namespaced.into()),
        ("group", group.into()),
        ("version", version.into()),
        ("kind", sub.kind.kind.as_str().into()),
        ("verbs", strings(&sub.verbs)),
    ])
}

/// The aggregated document of `/api` or `/apis`, without its kind. Versions of aggregated servers are as those describe
/// them.
pub(super) fn aggregated(snapshot: &Snapshot, remote: &[RemoteVersion], core: bool) -> Map {
    let mut groups: BTreeMap<&str, Vec<(Priority, Arc<Value>)>> = BTreeMap::new();
    for (name, versions) in snapshot.groups.iter().filter(|(name, _)| name.is_empty() == core) {
        let described = versions.iter().map(|version| {
            let resources = snapshot.resources(name, version);
            let document = object([
                ("version", version.as_str().into()),
                ("resources", list(resources.values().map(|resource| discovered(resource)))),
                ("freshness", "Current".into()),
            ]);
            (priority::of(name, version), Arc::new(document))
        });
        groups.insert(name, described.collect());
    }
    for RemoteVersion { group, priority, document } in
        remote.iter().filter(|remote| remote.group.is_empty() == core)
    {
        let versions = groups.entry(group).or_default();
        versions.retain(|(_, known)| known.str_at(&["version"]) != document.str_at(&["version"]));
        versions.push((*priority, document.clone()));
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    // The sort is stable and groups are sorted by name already.
    groups.sort_by_key(|(_, versions)| {
        Reverse(versions.iter().map(|(priority, _)| priority.group).max())
    });
    let items = groups.into_iter().map(|(name, mut versions)| {
        versions.sort_by(|(a, left), (b, right)| {
            let names = || (left.str_at(&["version"]), right.str_at(&["version"]));
            b.version.cmp(&a.version).then_with(|| priority::compare_maturity(names().0, names().1))
        });
        let versions = versions.into_iter().map(|(_, document)| Arc::unwrap_or_clone(document));
        object([("metadata", object([("name", name.into())])), ("versions", list(versions))])
    });
    Map::from_iter([("items", list(items))])
}

fn discovered(resource: &Resource) -> Value {
    kevel_compute::charge(20);
    let subs = subresources(resource).into_iter().map(|(name, sub)| {
        object([
            ("subresource", name.into()),
            ("responseKind", response_kind(resource, &sub.kind)),
            ("verbs", strings(&sub.verbs)),
        ])
    });
    let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
    object([
        ("resource", resource.plural.as_str().into()),
        ("responseKind", response_kind(resource, &resource.kind)),
        ("scope", scope.into()),
        ("singularResource", resource.singular.as_str().into()),
        ("verbs", strings(&resource.verbs)),
        ("shortNames", strings(&resource.short_names)),
        ("categories", strings(&resource.categories)),
        ("subresources", list(subs)),
    ])
}

/// `responseKind` of a resource: in full for custom resources, else only group and version that differ from the
/// resource's.
fn response_kind(resource: &Resource, kind: &GroupVersionKind) -> Value {
    let (group, version) = match resource.conventions.published.by_definition() {
        true => (kind.group.as_str(), kind.version.as_str()),
        false => foreign(resource, kind),
    };
    object([
        ("group", group.into()),
        ("version", version.into()),
        ("kind", kind.kind.as_str().into()),
    ])
}

/// Group and version of a kind, empty if they are those of the resource.
fn foreign<'k>(resource: &Resource, kind: &'k GroupVersionKind) -> (&'k str, &'k str) {
    match (&kind.group, &kind.version) == (&resource.kind.group, &resource.kind.version) {
        true => ("", ""),
        false => (&kind.group, &kind.version),
    }
}

/// Subresources by name; of a custom resource, status before scale.
fn subresources(resource: &Resource) -> Vec<(&str, &Subresource)> {
    let mut subs: Vec<_> = resource.subresources.iter().map(|(n, s)| (n.as_str(), s)).collect();
    if resource.conventions.published.by_definition() {
        subs.reverse();
    }
    subs
}

/// A map without empty values, which the encoder adds where needed.
fn object<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Value::Map(entries.into_iter().filter(|(_, value)| !value.is_empty()).collect())
}

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}

fn strings<S: AsRef<str>>(strings: impl IntoIterator<Item = S>) -> Value {
    list(strings.into_iter().map(|s| Value::from(s.as_ref())))
}
