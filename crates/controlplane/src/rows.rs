//! Rows for the built-in kinds, out of the definitions.

use std::collections::HashMap;
use std::sync::Arc;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_server::answer::{Answer, Answerer};
use kevel_server::resource::{Part, Resource, Subresource, TypeRef};
use kevel_server::storage::{Format, Storage, StorageConfig};
use kevel_store::Engine;
use kevel_store::cache::Caches;
use kevel_store::keys::{self, Origin};

use crate::capabilities::Capabilities;
use crate::{columns, kinds, pod};

/// Where and how built-in kinds are stored.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// `/registry`
    pub prefix: String,
    pub format: Format,
}

/// Groups whose objects are kept under another group's name and version: one object, seen as both.
const SHARED: &[[&str; 4]] = &[["events.k8s.io", "events", "", "v1"]];

/// Kinds that are not stored in their preferred version yet.
const STORED_AS: &[(&str, &str, &str)] = &[
    ("coordination.k8s.io", "leasecandidates", "v1beta1"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", "v1beta1"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "v1beta1"),
    ("certificates.k8s.io", "clustertrustbundles", "v1beta1"),
    ("certificates.k8s.io", "podcertificaterequests", "v1beta1"),
    ("resource.k8s.io", "devicetaintrules", "v1alpha3"),
    ("resource.k8s.io", "resourcepoolstatusrequests", "v1alpha3"),
    ("scheduling.k8s.io", "workloads", "v1alpha2"),
    ("scheduling.k8s.io", "podgroups", "v1alpha2"),
];

/// Groups that servers of the chain other than the control plane's own keep, under their group.
const EXTENSION_GROUPS: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// Who answers creations that are not stored: by group and path (`serviceaccounts/token`).
#[derive(Clone, Debug)]
pub struct Answers(HashMap<(&'static str, &'static str), Answerer>);

/// What the built-in kinds answer by themselves.
impl Default for Answers {
    fn default() -> Self {
        let mut answers = Answers(HashMap::new());
        answers.add("", "bindings", pod::Binding);
        answers.add("", "pods/binding", pod::Binding);
        answers.add("", "pods/eviction", pod::Eviction);
        answers
    }
}

impl Answers {
    pub fn add(&mut self, group: &'static str, path: &'static str, answer: impl Answer) {
        self.0.insert((group, path), Answerer::new(answer));
    }

    fn get(&self, resource: &builtin::Resource) -> Option<Answerer> {
        self.0.get(&(resource.group, resource.path)).cloned()
    }
}

/// A row for every enabled resource; the storage of a kind is shared by its versions.
pub fn rows(
    enabled: impl Fn(&builtin::Resource) -> bool,
    options: &StorageOptions,
    engine: &Arc<dyn Engine>,
    caches: &Caches,
    answers: &Answers,
    capabilities: Capabilities,
) -> Vec<Resource> {
    let all: Vec<&builtin::Resource> = builtin::resources().iter().filter(|r| enabled(r)).collect();
    let mut storages: HashMap<(String, String), Arc<Storage>> = HashMap::new();
    let mut rows = Vec::new();
    for resource in all.iter().filter(|r| !r.path.contains('/')) {
        let Some(schema) = builtin::schema(resource.group, resource.version, resource.kind) else {
            continue;
        };
        let stored = resource.verbs.contains(&"get");
        let storage = stored.then(|| {
            let (group, version) = stored_version(resource, &all);
            let key = (group.clone(), resource.path.to_owned());
            let make = || Arc::new(storage(resource, &group, &version, options, engine, caches));
            storages.entry(key).or_insert_with(make).clone()
        });
        let subs = all.iter().filter(|sub| {
            (sub.group, sub.version) == (resource.group, resource.version)
                && sub.path.split_once('/').is_some_and(|(of, _)| of == resource.path)
        });
        rows.push(Resource {
            kind: GroupVersionKind::from_static(resource.group, resource.version, resource.kind),
            plural: resource.path.to_owned(),
            singular: resource.singular.to_owned(),
            short_names: resource.short.iter().map(|s| (*s).to_owned()).collect(),
            categories: resource.categories.iter().map(|s| (*s).to_owned()).collect(),
            namespaced: resource.namespaced,
            verbs: resource.verbs.to_vec(),
            ty: TypeRef::BuiltIn(schema),
            strategy: kinds::strategy(resource.group, resource.path, capabilities),
            allocation: Default::default(),
            columns: columns::of(resource.group, resource.path),
            storage,
            answer: answers.get(resource),
            subresources: subs.filter_map(|sub| subresource(sub, answers, capabilities)).collect(),
            custom: None,
        });
    }
    rows
}

fn subresource(
    sub: &builtin::Resource,
    answers: &Answers,
    capabilities: Capabilities,
) -> Option<(String, Subresource)> {
    let (_, name) = sub.path.split_once('/')?;
    let schema = builtin::schema(sub.kind_group, sub.kind_version, sub.kind)?;
    let places = || kinds::places(sub.group, sub.path, capabilities).map(Part::Places);
    let part = match name {
        "status" => Part::Field("status"),
        "scale" => kinds::scale(sub.group, sub.path).map_or(Part::Other, Part::Scale),
        _ => answers.get(sub).map(Part::Answer).or_else(places).unwrap_or(Part::Other),
    };
    let kind = GroupVersionKind::from_static(sub.kind_group, sub.kind_version, sub.kind);
    let verbs = sub.verbs.to_vec();
    Some((name.to_owned(), Subresource { kind, verbs, ty: TypeRef::BuiltIn(schema), part }))
}

/// The group and version that a resource's objects are stored in.
fn stored_version(resource: &builtin::Resource, all: &[&builtin::Resource]) -> (String, String) {
    let name = (resource.group, resource.path);
    let shared = SHARED.iter().find(|[group, plural, ..]| (*group, *plural) == name);
    if let Some([_, _, group, version]) = shared {
        return ((*group).to_owned(), (*version).to_owned());
    }
    let fixed = STORED_AS.iter().find(|(group, plural, _)| (*group, *plural) == name);
    let version = fixed.map(|(_, _, version)| *version).or_else(|| {
        let versions = all.iter().filter(|r| (r.group, r.path) == name).map(|r| r.version);
        versions.max_by_key(|version| version_rank(version))
    });
    (resource.group.to_owned(), version.unwrap_or(resource.version).to_owned())
}

/// Stable versions before beta before alpha, newer ones first.
fn version_rank(version: &str) -> (u8, u32, u32) {
    let digits = |text: &str| text.parse().unwrap_or(0);
    let rest = version.trim_start_matches('v');
    match (rest.split_once("beta"), rest.split_once("alpha")) {
        (Some((major, minor)), _) => (1, digits(major), digits(minor)),
        (_, Some((major, minor))) => (0, digits(major), digits(minor)),
        _ => (2, digits(rest), 0),
    }
}

fn storage(
    resource: &builtin::Resource,
    group: &str,
    version: &str,
    options: &StorageOptions,
    engine: &Arc<dyn Engine>,
    caches: &Caches,
) -> Storage {
    let facts = kinds::facts(group, resource.path);
    let schema = builtin::schema(group, version, resource.kind);
    let schema =
        schema.or_else(|| builtin::schema(resource.group, resource.version, resource.kind));
    // The other servers of the chain write JSON whatever the store holds.
    let (origin, format) = match EXTENSION_GROUPS.contains(&group) {
        true => (Origin::Extension, Format::Json),
        false => (Origin::BuiltIn, options.format),
    };
    let position = |name: &&str| facts.fields.iter().position(|(field, _)| field == name);
    let config = StorageConfig {
        kind: GroupVersionKind::new(group, version, resource.kind),
        ty: TypeRef::BuiltIn(schema.unwrap_or_else(|| builtin::kinds()[0].schema())),
        prefix: keys::resource_prefix(&options.prefix, origin, group, resource.path),
        format,
        fields: facts.fields.iter().map(|(name, path)| ((*name).into(), (*path).into())).collect(),
        indexed: facts.indexed.iter().filter_map(position).collect(),
        time_to_live: facts.time_to_live,
        form: None,
        conversion: None,
    };
    Storage::new(config, engine.clone(), caches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_stored_in_the_reference_s_versions() {
        let all: Vec<_> = builtin::resources().iter().filter(|r| r.on).collect();
        for (group, version, plural, expected) in [
            ("", "v1", "pods", ("", "v1")),
            ("autoscaling", "v1", "horizontalpodautoscalers", ("autoscaling", "v2")),
            ("autoscaling", "v2", "horizontalpodautoscalers", ("autoscaling", "v2")),
            ("events.k8s.io", "v1", "events", ("", "v1")),
        ] {
            let found =
                all.iter().find(|r| (r.group, r.version, r.path) == (group, version, plural));
            let (g, v) = stored_version(found.unwrap(), &all);
            assert_eq!((g.as_str(), v.as_str()), expected, "{group} {plural}");
        }
    }

    #[test]
    fn versions_are_ordered_by_maturity() {
        let mut versions = ["v1alpha1", "v2", "v1", "v1beta2", "v1beta1"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v2", "v1", "v1beta2", "v1beta1", "v1alpha1"]);
    }
}
