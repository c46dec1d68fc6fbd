//! Which writes a webhook or policy is about: rules, namespace and object selectors, equivalent versions.
//!
//! [`MatchCriteria`] are compiled once for each webhook, policy or binding. A write is a [`Subject`], which remembers what
//! was looked up for it (its namespace, the rows that are equivalent to its own), so that the second who asks does not
//! look again. Rules are asked first: they cost a few comparisons, and nearly everything ends there.

mod equivalent;
mod rule;
mod selector;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use kevel_api::gvk::{GroupResource, GroupVersionKind};
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::admission::Attributes;
use kevel_server::resource::{Resource, Resources};
use kevel_server::storage::Storage;
use kevel_store::cache::{At, Object};
use tokio::sync::OnceCell;

use self::equivalent::Equivalents;
use self::rule::Rule;
use self::selector::Selectors;

/// The group of webhooks and policies.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// The kinds that no webhook and no policy of the API is asked about: who breaks one must be able to mend it.
const EXEMPT: [&str; 6] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// Whether a write is one of those that nobody is asked about (`IsExemptAdmissionConfigurationResource`).
pub fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let kind = attributes.kind();
    kind.group == GROUP && EXEMPT.contains(&kind.kind.as_str())
}

/// What predicates look up: namespaces, and the rows of all servers.
#[derive(Debug)]
pub struct Matcher {
    namespaces: Arc<Storage>,
    equivalents: Equivalents,
}

impl Matcher {
    /// Predicates over these namespaces and rows.
    pub fn new(namespaces: Arc<Storage>, tables: Vec<Arc<Resources>>) -> Self {
        Matcher { namespaces, equivalents: Equivalents::new(tables) }
    }

    /// Waits until namespaces are known.
    pub async fn ready(&self) -> bool {
        self.namespaces.cache.loaded().await.is_ok()
    }

    /// A write that predicates will be asked about.
    pub fn subject<'a>(&'a self, attributes: &'a Attributes<'a>) -> Subject<'a> {
        let (namespace, equivalents) = (OnceCell::new(), OnceLock::new());
        Subject { attributes, matcher: self, namespace, equivalents }
    }
}

/// Which writes a webhook, policy or binding is about.
#[derive(Clone, Debug)]
pub struct MatchCriteria {
    selectors: Selectors,
    /// Any of them; `None` where everything is meant.
    rules: Option<Vec<Rule>>,
    /// None of them.
    exclude: Vec<Rule>,
    /// Whether rules also mean the same objects in other versions (`matchPolicy: Equivalent`).
    equivalent: bool,
}

impl MatchCriteria {
    /// Those of a webhook: without rules it is about nothing.
    pub fn of_webhook(webhook: &Value) -> Self {
        MatchCriteria {
            selectors: Selectors::new(webhook),
            rules: Some(Rule::list(webhook.list_at(&["rules"]))),
            exclude: Vec::new(),
            equivalent: is_equivalent(webhook),
        }
    }

    /// Those of a policy (`matchConstraints`) or binding (`matchResources`): without rules it is about everything that
    /// it selects.
    pub fn of_match_resources(resources: &Value) -> Self {
        let rules = Rule::list(resources.list_at(&["resourceRules"]));
        MatchCriteria {
            selectors: Selectors::new(resources),
            rules: (!rules.is_empty()).then_some(rules),
            exclude: Rule::list(resources.list_at(&["excludeResourceRules"])),
            equivalent: is_equivalent(resources),
        }
    }

    /// Whether a write is meant, and in which version. `object` is what is written as it is now, which webhooks before
    /// this one may have changed. A namespace that is not there is an error, but only of who would be asked.
    pub async fn matches(
        &self,
        subject: &Subject<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Matched>, StatusError> {
        let Some(matched) = self.matches_rules(subject) else { return Ok(None) };
        Ok(self.selects(subject, object).await?.then_some(matched))
    }

    /// Whether the selectors mean a write. A namespace that is not there is an error, but only of who would be asked.
    pub async fn selects(
        &self,
        subject: &Subject<'_>,
        object: Option<&Value>,
    ) -> Result<bool, StatusError> {
        let in_object = self.selectors.match_object(subject.attributes, object);
        if let Ok(false) = in_object {
            return Ok(false);
        }
        let in_namespace = self.selectors.match_namespace(subject, object).await?;
        Ok(in_namespace && in_object?)
    }

    /// Whether the rules mean a write, and in which version.
    pub fn matches_rules(&self, subject: &Subject<'_>) -> Option<Matched> {
        if !self.exclude.is_empty() && self.any(&self.exclude, subject).is_some() {
            return None;
        }
        match &self.rules {
            None => Some(Matched::AsRequested),
            Some(rules) => self.any(rules, subject),
        }
    }

    /// The first rule that means a write. What is asked for as it is goes before other versions; earlier rules go before
    /// later ones.
    fn any(&self, rules: &[Rule], subject: &Subject<'_>) -> Option<Matched> {
        let attributes = subject.attributes;
        let any = |resource| rules.iter().any(|rule| rule.matches(attributes, resource));
        if any(attributes.resource) {
            return Some(Matched::AsRequested);
        }
        if !self.equivalent || subject.equivalents().is_empty() {
            return None;
        }
        // Whatever the version, these hold or do not.
        let apart = |rule: &&Rule| rule.matches_all_but_resource(attributes);
        let rules = rules.iter().filter(apart);
        let mut pairs =
            rules.flat_map(|rule| subject.equivalents().iter().map(move |row| (rule, row)));
        let found = pairs.find(|(rule, row)| rule.matches(attributes, row));
        found.map(|(_, row)| Matched::Equivalent(row.clone()))
    }
}

fn is_equivalent(criteria: &Value) -> bool {
    criteria.str_at(&["matchPolicy"]) == "Equivalent"
}

/// In which version a write is what somebody wants to be asked about.
#[derive(Clone, Debug)]
pub enum Matched {
    /// As it was requested.
    AsRequested,
    /// As another row of the same storage has it.
    Equivalent(Arc<Resource>),
}

impl Matched {
    /// The row to name.
    pub fn resource<'a>(&'a self, attributes: &Attributes<'a>) -> &'a Resource {
        match self {
            Matched::AsRequested => attributes.resource,
            Matched::Equivalent(resource) => resource,
        }
    }

    /// The kind in which the object is to be shown: of a subresource, the kind of what is sent there.
    pub fn kind<'a>(&'a self, attributes: &Attributes<'a>) -> &'a GroupVersionKind {
        self.resource(attributes).kind_of(attributes.subresource)
    }
}

/// A write, and what has been looked up about it.
#[derive(Debug)]
pub struct Subject<'a> {
    /// What is written, by whom.
    pub attributes: &'a Attributes<'a>,
    matcher: &'a Matcher,
    namespace: OnceCell<Arc<Object>>,
    equivalents: OnceLock<Arc<[Arc<Resource>]>>,
}

impl Subject<'_> {
    /// The namespace that the write is in. One that the cache does not have may just have been made: then the store is
    /// asked.
    pub async fn namespace(&self) -> Result<&Arc<Object>, StatusError> {
        self.namespace.get_or_try_init(|| self.find_namespace()).await
    }

    /// Facts that `read` takes of that namespace, once for each of its states: every write asks for them.
    pub async fn namespace_facts<T: Send + Sync + 'static>(
        &self,
        read: fn(&Value) -> T,
    ) -> Result<Arc<T>, StatusError> {
        let namespace = self.namespace().await?;
        self.matcher.namespaces.decoded(namespace, read).map_err(StatusError::internal)
    }

    async fn find_namespace(&self) -> Result<Arc<Object>, StatusError> {
        let (cache, name) = (&self.matcher.namespaces.cache, self.attributes.namespace);
        if name.is_empty() {
            return Err(StatusError::internal("resource name may not be empty"));
        }
        for at in [At::Any, At::Consistent] {
            if let Some(found) = cache.get(name, at).await.map_err(StatusError::internal)? {
                return Ok(found);
            }
        }
        Err(StatusError::not_found(&GroupResource::from_static("", "namespaces"), name))
    }

    /// The other rows of the same storage that have the same subresource.
    fn equivalents(&self) -> &[Arc<Resource>] {
        self.equivalents.get_or_init(|| {
            self.matcher.equivalents.of(self.attributes.resource, self.attributes.subresource)
        })
    }
}
