//! Rows of the built-in kinds, built from the definitions and the `Kind` values.

mod json_line;
mod storages;

use std::collections::HashMap;
use std::sync::Arc;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_registry::allocation::Allocation;
use kevel_registry::columns::ScaleColumns;
use kevel_registry::resource::{
    Conventions, Creater, Lister, Resource, Subresource, SubresourceKind, WritableFields,
};
use kevel_registry::scale::Scale;
use kevel_registry::storage::Storage;
use kevel_registry::storages::Storages;
use kevel_registry::type_ref::TypeRef;

use kevel_features::FeatureSet;

use crate::capabilities::Capabilities;
use crate::kind::{self, Kind, KindStrategy};
use crate::kinds::{self, KINDS};
use crate::pod;
use kevel_registry::verb::Verb;

pub use self::storages::{StorageOptions, group_resource, locations, storages, version_rank};

/// Creaters of kinds and subresources that are not stored, by group and path (`serviceaccounts/token`).
#[derive(Clone, Debug)]
pub struct Creaters(HashMap<(&'static str, &'static str), Option<Arc<dyn Creater>>>);

impl Default for Creaters {
    fn default() -> Self {
        Creaters::new(FeatureSet::default())
    }
}

impl Creaters {
    /// The creaters that need nothing but the rows and the features that are on.
    pub fn new(features: FeatureSet) -> Self {
        let mut creaters = Creaters(HashMap::new());
        creaters.add("", "bindings", pod::Binding { features });
        creaters.add("", "pods/binding", pod::Binding { features });
        creaters.add("", "pods/eviction", pod::Eviction);
        creaters
    }

    /// Adds the creater of a kind or subresource.
    pub fn add(&mut self, group: &'static str, path: &'static str, creater: impl Creater) {
        self.0.insert((group, path), Some(Arc::new(creater)));
    }

    /// Says that a kind or subresource is not served, and that this is meant.
    pub fn leave_out(&mut self, group: &'static str, path: &'static str) {
        self.0.insert((group, path), None);
    }

    /// Finds a kind or subresource that is created and not stored, and has no creater.
    pub fn check(&self) -> Result<(), String> {
        let needed = KINDS.iter().flat_map(|kind| {
            let subresources = kind.subresources.iter();
            let named =
                subresources.filter(|(_, sub)| matches!(sub, kind::Subresource::NamedCreater));
            let paths = named.map(|(name, _)| format!("{}/{name}", kind.plural));
            paths.chain(kind.creater.then(|| kind.plural.to_owned())).map(|path| (kind.group, path))
        });
        let known = |group, path: &str| self.0.keys().any(|known| *known == (group, path));
        match needed.into_iter().find(|(group, path)| !known(group, path)) {
            Some((group, path)) => Err(format!("{path} of group {group:?} has no creater")),
            None => Ok(()),
        }
    }

    /// Finds creaters that no kind uses.
    fn check_needed(&self) -> Result<(), String> {
        let needed = |group: &str, path: &str| {
            let (plural, sub) = path.split_once('/').unwrap_or((path, ""));
            let Some(kind) = kinds::find(group, plural) else { return false };
            match sub {
                "" => kind.creater,
                sub => matches!(kind.subresource(sub), Some(kind::Subresource::NamedCreater)),
            }
        };
        match self.0.keys().find(|(group, path)| !needed(group, path)) {
            Some((group, path)) => Err(format!("{path} of group {group:?} needs no creater")),
            None => Ok(()),
        }
    }

    fn get(&self, resource: &builtin::Resource) -> Option<Arc<dyn Creater>> {
        self.0.get(&(resource.group, resource.path)).cloned().flatten()
    }
}

/// Group and plural of a kind.
type GroupResource = (&'static str, &'static str);

/// Inputs of rows, besides the definitions and the kinds.
pub struct RowsConfig<'a> {
    /// Storages of the stored kinds.
    pub storages: &'a Storages,
    /// Creaters of kinds that are not stored.
    pub creaters: Creaters,
    /// Allocations by group and plural.
    pub allocations: Vec<(GroupResource, Arc<dyn Allocation>)>,
    /// Listers of kinds whose objects are computed.
    pub listers: Vec<(GroupResource, Arc<dyn Lister>)>,
    /// Settings and features for the kinds' rules.
    pub capabilities: Capabilities,
}

impl std::fmt::Debug for RowsConfig<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowsConfig").finish_non_exhaustive()
    }
}

impl<'a> RowsConfig<'a> {
    /// Configuration without creaters, allocations and listers.
    pub fn new(storages: &'a Storages) -> Self {
        RowsConfig {
            storages,
            creaters: Creaters::default(),
            allocations: Vec::new(),
            listers: Vec::new(),
            capabilities: Capabilities::default(),
        }
    }

    fn allocation(&self, kind: &Kind) -> Option<Arc<dyn Allocation>> {
        let mut allocations = self.allocations.iter();
        let found = allocations.find(|(name, _)| *name == (kind.group, kind.plural));
        found.map(|(_, allocation)| allocation.clone())
    }

    fn lister(&self, kind: &Kind) -> Option<Arc<dyn Lister>> {
        let mut listers = self.listers.iter();
        let found = listers.find(|(name, _)| *name == (kind.group, kind.plural));
        found.map(|(_, lister)| lister.clone())
    }

    fn storage(&self, kind: &Kind) -> Result<Option<Arc<Storage>>, String> {
        (!kind.creater).then(|| self.storages.required(kind.group, kind.plural)).transpose()
    }
}

/// A row for every enabled resource; the storage of a kind is shared by its versions. Fails where a kind
/// and its definition do not fit.
pub fn rows(
    enabled: impl Fn(&builtin::Resource) -> bool,
    config: &RowsConfig<'_>,
) -> Result<Vec<Resource>, String> {
    let RowsConfig { creaters, capabilities, .. } = config;
    kinds::check(KINDS)?;
    creaters.check_needed()?;
    let served: Vec<&builtin::Resource> =
        builtin::resources().iter().filter(|resource| enabled(resource)).collect();
    let mut rows = Vec::new();
    for resource in served.iter().filter(|resource| !resource.path.contains('/')) {
        let kind = kinds::find(resource.group, resource.path);
        let kind = kind.ok_or_else(|| format!("{} is not a kind", resource.path))?;
        let subresources = served.iter().filter(|sub| {
            (sub.group, sub.version) == (resource.group, resource.version)
                && sub.path.split_once('/').is_some_and(|(of, _)| of == resource.path)
        });
        let subresources = subresources.map(|sub| subresource(sub, kind, config));
        let storage = config.storage(kind)?;
        rows.push(Resource {
            kind: GroupVersionKind::from_static(resource.group, resource.version, resource.kind),
            list_kind: format!("{}List", resource.kind),
            plural: resource.path.to_owned(),
            singular: resource.singular.to_owned(),
            short_names: resource.short.iter().map(|s| (*s).to_owned()).collect(),
            categories: resource.categories.iter().map(|s| (*s).to_owned()).collect(),
            namespaced: resource.namespaced,
            verbs: Verb::parse_all(resource.verbs)?,
            ty: schema(resource.group, resource.version, resource.kind)?,
            strategy: Arc::new(
                KindStrategy::new(kind, capabilities.clone()).in_version(builtin::deprecation(
                    resource.group,
                    resource.version,
                    resource.kind,
                )),
            ),
            allocation: config.allocation(kind),
            columns: Arc::new(kind.columns),
            conventions: conventions(kind, storage.as_deref()),
            storage,
            creater: creaters.get(resource),
            lister: config.lister(kind),
            subresources: subresources.collect::<Result<_, String>>()?,
        });
    }
    Ok(rows)
}

/// Conventions of a kind. If selectors may name fields besides name and namespace, field labels are converted.
fn conventions(kind: &Kind, storage: Option<&Storage>) -> Conventions {
    let converted_annotations = kind.converted_annotations;
    let conventions = Conventions { converted_annotations, ..Conventions::typed(false) };
    match storage.is_some_and(|storage| !storage.fields.is_empty()) {
        true => Conventions { field_labels: kind.unknown_field_labels, ..conventions },
        false => conventions,
    }
}

/// The type of a kind, which must be there.
fn schema(group: &str, version: &str, kind: &str) -> Result<TypeRef, String> {
    let schema = builtin::schema(group, version, kind);
    schema.map(TypeRef::BuiltIn).ok_or_else(|| format!("{group}/{version} {kind} has no schema"))
}

fn subresource(
    sub: &builtin::Resource,
    kind: &'static Kind,
    config: &RowsConfig<'_>,
) -> Result<(String, Subresource), String> {
    let RowsConfig { creaters, capabilities, .. } = config;
    let name = sub.path.split_once('/').map_or("", |(_, name)| name);
    let told = kind.subresource(name);
    let told = told.ok_or_else(|| format!("{kind} does not say what {} is", sub.path))?;
    let role = match told {
        kind::Subresource::Status => SubresourceKind::Status,
        kind::Subresource::Fields { paths, metadata, rules } => {
            let strategy = Arc::new(KindStrategy::with_rules(kind, rules, capabilities.clone()));
            SubresourceKind::Fields(WritableFields { paths, metadata, strategy })
        }
        kind::Subresource::Scale(selector) => {
            let words = |path: [&str; 2]| path.map(str::to_owned).to_vec();
            SubresourceKind::Scale(Scale {
                wanted: words(kind::REPLICAS),
                there: words(kind::STATUS_REPLICAS),
                selector: selector(words(kind::SELECTOR)),
                checked: true,
                columns: &ScaleColumns,
            })
        }
        kind::Subresource::NamedCreater => {
            creaters.get(sub).map_or(SubresourceKind::NotServed, SubresourceKind::NamedCreater)
        }
        kind::Subresource::Connecter => SubresourceKind::Connecter,
    };
    let ty = schema(sub.kind_group, sub.kind_version, sub.kind)?;
    let kind = GroupVersionKind::from_static(sub.kind_group, sub.kind_version, sub.kind);
    Ok((name.to_owned(), Subresource { kind, verbs: Verb::parse_all(sub.verbs)?, ty, role }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unstored_kind_has_a_creater() {
        let mut creaters = Creaters::default();
        let missing = |path, group| Err(format!("{path} of group {group:?} has no creater"));
        assert_eq!(creaters.check(), missing("serviceaccounts/token", ""));
        creaters.leave_out("", "serviceaccounts/token");
        assert_eq!(creaters.check(), missing("selfsubjectreviews", "authentication.k8s.io"));
        assert_eq!(creaters.check_needed(), Ok(()));
        creaters.add("", "pods/status", pod::Eviction);
        let other = "pods/status of group \"\" needs no creater";
        assert_eq!(creaters.check_needed(), Err(other.into()));
    }
}
