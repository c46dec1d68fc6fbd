//! Rows for the built-in kinds, out of the definitions and what each kind says of itself.

mod storages;

use std::collections::HashMap;
use std::sync::Arc;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_server::allocation::Allocation;
use kevel_server::resource::{Answer, Answerer};
use kevel_server::resource::{Part, Places, Resource, Subresource};
use kevel_server::scale::Scale;
use kevel_server::storage::Storage;
use kevel_server::storages::Storages;
use kevel_server::type_ref::TypeRef;

use crate::capabilities::Capabilities;
use crate::kind::{self, Kind, KindStrategy};
use crate::kinds::{self, KINDS};
use crate::pod;
use kevel_server::verb::Verb;

pub use self::storages::{StorageOptions, group_resource, storages};

/// Who answers creations that are not stored: by group and path (`serviceaccounts/token`).
#[derive(Clone, Debug)]
pub struct Answers(HashMap<(&'static str, &'static str), Option<Answerer>>);

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
    /// Says who answers.
    pub fn add(&mut self, group: &'static str, path: &'static str, answer: impl Answer) {
        self.0.insert((group, path), Some(Answerer::new(answer)));
    }

    /// Says that nobody does, and that this is meant.
    pub fn leave_out(&mut self, group: &'static str, path: &'static str) {
        self.0.insert((group, path), None);
    }

    /// Finds what is asked by a POST and of which nobody has said who answers it.
    pub fn check(&self) -> Result<(), String> {
        let asked = KINDS.iter().flat_map(|kind| {
            let subresources = kind.subresources.iter();
            let named =
                subresources.filter(|(_, sub)| matches!(sub, kind::Subresource::NamedCreater));
            let paths = named.map(|(name, _)| format!("{}/{name}", kind.plural));
            paths.chain(kind.creater.then(|| kind.plural.to_owned())).map(|path| (kind.group, path))
        });
        let known = |group, path: &str| self.0.keys().any(|known| *known == (group, path));
        match asked.into_iter().find(|(group, path)| !known(group, path)) {
            Some((group, path)) => Err(format!("nobody answers {path} of group {group:?}")),
            None => Ok(()),
        }
    }

    /// Finds answers to what no kind says is asked by a POST.
    fn check_asked(&self) -> Result<(), String> {
        let asked = |group: &str, path: &str| {
            let (plural, sub) = path.split_once('/').unwrap_or((path, ""));
            let Some(kind) = kinds::find(group, plural) else { return false };
            match sub {
                "" => kind.creater,
                sub => matches!(kind.subresource(sub), Some(kind::Subresource::NamedCreater)),
            }
        };
        match self.0.keys().find(|(group, path)| !asked(group, path)) {
            Some((group, path)) => Err(format!("{path} of group {group:?} is not asked by a POST")),
            None => Ok(()),
        }
    }

    fn get(&self, resource: &builtin::Resource) -> Option<Answerer> {
        self.0.get(&(resource.group, resource.path)).cloned().flatten()
    }
}

/// Group and plural of a kind.
type GroupResource = (&'static str, &'static str);

/// What rows are made of, beside the definitions and what kinds say of themselves.
pub struct RowsConfig<'a> {
    /// Where objects are kept.
    pub storages: &'a Storages,
    /// Who answers what is not stored.
    pub answers: Answers,
    /// What the objects of a kind need from elsewhere, by group and plural.
    pub allocations: Vec<(GroupResource, Arc<dyn Allocation>)>,
    /// What the rules go by.
    pub capabilities: Capabilities,
}

impl std::fmt::Debug for RowsConfig<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowsConfig").finish_non_exhaustive()
    }
}

impl<'a> RowsConfig<'a> {
    /// Rows for which nobody else does anything.
    pub fn new(storages: &'a Storages) -> Self {
        RowsConfig {
            storages,
            answers: Answers::default(),
            allocations: Vec::new(),
            capabilities: Capabilities::default(),
        }
    }

    fn allocation(&self, kind: &Kind) -> Option<Arc<dyn Allocation>> {
        let mut allocations = self.allocations.iter();
        let found = allocations.find(|(name, _)| *name == (kind.group, kind.plural));
        found.map(|(_, allocation)| allocation.clone())
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
    let RowsConfig { answers, capabilities, .. } = config;
    let capabilities = *capabilities;
    kinds::check(KINDS)?;
    answers.check_asked()?;
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
        let subresources = subresources.map(|sub| subresource(sub, kind, answers, capabilities));
        rows.push(Resource {
            kind: GroupVersionKind::from_static(resource.group, resource.version, resource.kind),
            plural: resource.path.to_owned(),
            singular: resource.singular.to_owned(),
            short_names: resource.short.iter().map(|s| (*s).to_owned()).collect(),
            categories: resource.categories.iter().map(|s| (*s).to_owned()).collect(),
            namespaced: resource.namespaced,
            verbs: Verb::parse_all(resource.verbs)?,
            ty: schema(resource.group, resource.version, resource.kind)?,
            strategy: Arc::new(
                KindStrategy::new(kind, capabilities).in_version(builtin::deprecation(
                    resource.group,
                    resource.version,
                    resource.kind,
                )),
            ),
            allocation: config.allocation(kind),
            columns: Arc::new(kind.columns),
            storage: config.storage(kind)?,
            answer: answers.get(resource),
            subresources: subresources.collect::<Result<_, String>>()?,
            custom: None,
        });
    }
    Ok(rows)
}

/// The type of a kind, which must be there.
fn schema(group: &str, version: &str, kind: &str) -> Result<TypeRef, String> {
    let schema = builtin::schema(group, version, kind);
    schema.map(TypeRef::BuiltIn).ok_or_else(|| format!("{group}/{version} {kind} has no schema"))
}

fn subresource(
    sub: &builtin::Resource,
    kind: &'static Kind,
    answers: &Answers,
    capabilities: Capabilities,
) -> Result<(String, Subresource), String> {
    let name = sub.path.split_once('/').map_or("", |(_, name)| name);
    let told = kind.subresource(name);
    let told = told.ok_or_else(|| format!("{kind} does not say what {} is", sub.path))?;
    let part = match told {
        kind::Subresource::Status => Part::Field("status"),
        kind::Subresource::Fields { paths, metadata, rules } => {
            let strategy = Arc::new(KindStrategy::with_rules(kind, rules, capabilities));
            Part::Places(Places { paths, metadata, strategy })
        }
        kind::Subresource::Scale(selector) => {
            let words = |path: [&str; 2]| path.map(str::to_owned).to_vec();
            Part::Scale(Scale {
                wanted: words(kind::REPLICAS),
                there: words(kind::STATUS_REPLICAS),
                selector: selector(words(kind::SELECTOR)),
            })
        }
        kind::Subresource::NamedCreater => answers.get(sub).map_or(Part::Other, Part::Answer),
        kind::Subresource::Connecter => Part::Other,
    };
    let ty = schema(sub.kind_group, sub.kind_version, sub.kind)?;
    let kind = GroupVersionKind::from_static(sub.kind_group, sub.kind_version, sub.kind);
    Ok((name.to_owned(), Subresource { kind, verbs: Verb::parse_all(sub.verbs)?, ty, part }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_by_a_post_has_somebody_who_answers_or_is_left_out() {
        let mut answers = Answers::default();
        let missing = |path, group| Err(format!("nobody answers {path} of group {group:?}"));
        assert_eq!(answers.check(), missing("serviceaccounts/token", ""));
        answers.leave_out("", "serviceaccounts/token");
        assert_eq!(answers.check(), missing("selfsubjectreviews", "authentication.k8s.io"));
        assert_eq!(answers.check_asked(), Ok(()));
        answers.add("", "pods/status", pod::Binding);
        let other = "pods/status of group \"\" is not asked by a POST";
        assert_eq!(answers.check_asked(), Err(other.into()));
    }
}
