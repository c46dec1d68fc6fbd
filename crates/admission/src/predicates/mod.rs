//! Predicates: whether a webhook or policy applies to a request, by rules, namespace and object selectors, and
//! equivalent versions.
//!
//! [`MatchCriteria`] are compiled once for each webhook, policy or binding. A request is a [`Subject`], which caches
//! its namespace and the rows that are equivalent to its own, so that each is looked up once. Rules are checked first:
//! they cost a few comparisons, and nearly all requests fail there.

mod equivalent;
mod rule;
mod selector;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::{Arc, OnceLock};

use kevel_api::gvk::{GroupResource, GroupVersionKind};
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_registry::admission::Attributes;
use kevel_registry::resource::{Resource, Resources};
use kevel_registry::storage::Storage;
use kevel_store::cache::{At, Object};
use tokio::sync::OnceCell;

use self::equivalent::Equivalents;
use self::rule::Rule;
use self::selector::Selectors;

/// API group of webhooks and policies.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// Kinds that webhooks and policies never see, so that a broken one can be repaired.
const EXEMPT: [&str; 6] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// Whether a request is exempt from webhooks and policies (upstream: IsExemptAdmissionConfigurationResource).
pub fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let kind = attributes.kind();
    kind.group == GROUP && EXEMPT.contains(&kind.kind.as_str())
}

/// Lookups of predicates: namespaces, and the resources of all servers in the chain.
#[derive(Debug)]
pub struct Matcher {
    namespaces: Arc<Storage>,
    equivalents: Equivalents,
}

impl Matcher {
    /// Makes a matcher over these namespaces and resources.
    pub fn new(namespaces: Arc<Storage>, tables: Vec<Arc<Resources>>) -> Self {
        Matcher { namespaces, equivalents: Equivalents::new(tables) }
    }

    /// Waits until namespaces are loaded.
    pub async fn ready(&self) -> bool {
        self.namespaces.cache.loaded().await.is_ok()
    }

    /// Subject of predicates for a request.
    pub fn subject<'a>(&'a self, attributes: &'a Attributes<'a>) -> Subject<'a> {
        let (namespace, equivalents) = (OnceCell::new(), OnceLock::new());
        Subject { attributes, matcher: self, namespace, equivalents }
    }
}

/// Match criteria of a webhook, policy or binding.
#[derive(Clone, Debug)]
pub struct MatchCriteria {
    selectors: Selectors,
    /// Any of these must match; `None` matches everything.
    rules: Option<Vec<Rule>>,
    /// None of these may match.
    exclude: Vec<Rule>,
    /// Whether rules also match equivalent versions (`matchPolicy: Equivalent`).
    equivalent: bool,
}

impl MatchCriteria {
    /// Criteria of a webhook: without rules it matches nothing.
    pub fn of_webhook(webhook: &Value) -> Self {
        MatchCriteria {
            selectors: Selectors::new(webhook),
            rules: Some(Rule::list(webhook.list_at(&["rules"]))),
            exclude: Vec::new(),
            equivalent: is_equivalent(webhook),
        }
    }

    /// Criteria of a policy (`matchConstraints`) or binding (`matchResources`): without rules it matches everything
    /// that its selectors select.
    pub fn of_match_resources(resources: &Value) -> Self {
        let rules = Rule::list(resources.list_at(&["resourceRules"]));
        MatchCriteria {
            selectors: Selectors::new(resources),
            rules: (!rules.is_empty()).then_some(rules),
            exclude: Rule::list(resources.list_at(&["excludeResourceRules"])),
            equivalent: is_equivalent(resources),
        }
    }

    /// Whether a request matches, and in which version. `object` is the object as it is now, which earlier webhooks may
    /// have changed. A missing namespace is an error, but only if the rules match.
    pub async fn matches(
        &self,
        subject: &Subject<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Matched>, StatusError> {
        let Some(matched) = self.matches_rules(subject) else { return Ok(None) };
        Ok(self.selects(subject, object).await?.then_some(matched))
    }

    /// Whether the selectors match a request. A missing namespace is an error.
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

    /// Whether the rules match a request, and in which version.
    pub fn matches_rules(&self, subject: &Subject<'_>) -> Option<Matched> {
        if !self.exclude.is_empty() && self.any(&self.exclude, subject).is_some() {
            return None;
        }
        match &self.rules {
            None => Some(Matched::AsRequested),
            Some(rules) => self.any(rules, subject),
        }
    }

    /// Version of the first rule that matches. The requested version goes before equivalent versions; earlier rules go
    /// before later ones.
    fn any(&self, rules: &[Rule], subject: &Subject<'_>) -> Option<Matched> {
        let attributes = subject.attributes;
        let any = |resource| rules.iter().any(|rule| rule.matches(attributes, resource));
        if any(attributes.resource) {
            return Some(Matched::AsRequested);
        }
        if !self.equivalent || subject.equivalents().is_empty() {
            return None;
        }
        // These parts of a rule do not depend on the version.
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

/// Version in which a request matches.
#[derive(Clone, Debug)]
pub enum Matched {
    /// The requested version.
    AsRequested,
    /// Another row that serves the same objects.
    Equivalent(Arc<Resource>),
}

impl Matched {
    /// Row of the matched version.
    pub fn resource<'a>(&'a self, attributes: &Attributes<'a>) -> &'a Resource {
        match self {
            Matched::AsRequested => attributes.resource,
            Matched::Equivalent(resource) => resource,
        }
    }

    /// Kind in which the object is sent; for a subresource, the kind of its body.
    pub fn kind<'a>(&'a self, attributes: &Attributes<'a>) -> &'a GroupVersionKind {
        self.resource(attributes).kind_of(attributes.subresource)
    }
}

/// An admission request, with its lookups.
#[derive(Debug)]
pub struct Subject<'a> {
    /// Attributes of the request.
    pub attributes: &'a Attributes<'a>,
    matcher: &'a Matcher,
    namespace: OnceCell<Arc<Object>>,
    equivalents: OnceLock<Arc<[Arc<Resource>]>>,
}

impl Subject<'_> {
    /// Namespace of the request. The cache may not have a new namespace yet: then the store is asked.
    pub async fn namespace(&self) -> Result<&Arc<Object>, StatusError> {
        self.namespace.get_or_try_init(|| self.find_namespace()).await
    }

    /// Value that `read` derives from the request's namespace, computed once for each revision of the namespace,
    /// because every request needs it.
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

    /// Other rows that serve the same objects and have the same subresource.
    fn equivalents(&self) -> &[Arc<Resource>] {
        self.equivalents.get_or_init(|| {
            self.matcher.equivalents.of(self.attributes.resource, self.attributes.subresource)
        })
    }
}
