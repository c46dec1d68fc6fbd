//! PolicyRule of a role: matching of requests, and coverage by other rules.

mod coverage;

pub use coverage::{Coverage, TooMany, uncovered};

use std::fmt;

use kevel_api::quote::quote;
use kevel_api::value::{Map, Value};
use kevel_server::authorization::Attributes;

/// Wildcard for verbs, groups, resources and paths.
const ALL: &str = "*";
/// Limit on the single permissions of a role's rules in an escalation check. The largest default role has a few
/// hundred.
pub const MAX_PERMISSIONS: usize = 20_000;

/// `PolicyRule` of rbac.authorization.k8s.io/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyRule {
    /// Verbs; `*` is all of them.
    pub verbs: Vec<String>,
    /// API groups; `*` is all of them.
    pub api_groups: Vec<String>,
    /// Resources; `*` is all of them.
    pub resources: Vec<String>,
    /// Names of objects; empty is all of them.
    pub resource_names: Vec<String>,
    /// Paths that are not resources.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Fields with their JSON and Go names, in the order of messages.
    fn fields(&self) -> [(&'static str, &'static str, &Vec<String>); 5] {
        [
            ("apiGroups", "APIGroups", &self.api_groups),
            ("resources", "Resources", &self.resources),
            ("nonResourceURLs", "NonResourceURLs", &self.non_resource_urls),
            ("resourceNames", "ResourceNames", &self.resource_names),
            ("verbs", "Verbs", &self.verbs),
        ]
    }

    fn read(value: &Value) -> Self {
        PolicyRule {
            verbs: strings(value, "verbs"),
            api_groups: strings(value, "apiGroups"),
            resources: strings(value, "resources"),
            resource_names: strings(value, "resourceNames"),
            non_resource_urls: strings(value, "nonResourceURLs"),
        }
    }

    /// The rule as a value in a role.
    pub fn to_value(&self) -> Value {
        let list = |texts: &Vec<String>| texts.iter().map(|text| text.as_str().into()).collect();
        let fields = self.fields().into_iter().filter(|(_, _, texts)| !texts.is_empty());
        Map::from_iter(fields.map(|(name, _, texts)| (name, Value::List(list(texts))))).into()
    }

    /// True if the rule allows the request.
    pub fn allows(&self, asked: &Attributes<'_>) -> bool {
        kevel_compute::charge(1);
        let verb = self.verbs.iter().any(|verb| verb == ALL || verb == asked.verb);
        if !asked.is_resource {
            return verb && self.non_resource_urls.iter().any(|url| url_covers(url, asked.path));
        }
        verb && self.api_groups.iter().any(|group| group == ALL || group == asked.group)
            && self.resources.iter().any(|rule| names(rule, asked.resource, asked.subresource))
            && (self.resource_names.is_empty()
                || self.resource_names.iter().any(|name| name == asked.name))
    }

    /// Number of single permissions that the rule consists of; `None` if it overflows.
    fn count_permissions(&self) -> Option<usize> {
        let names = self.resource_names.len().max(1);
        let on_resources = self.api_groups.len().checked_mul(self.resources.len())?;
        let on_resources = on_resources.checked_mul(self.verbs.len())?.checked_mul(names)?;
        let on_paths = self.non_resource_urls.len().checked_mul(self.verbs.len())?;
        on_resources.checked_add(on_paths)
    }

    /// Single permissions of the rule.
    fn permissions(&self) -> impl Iterator<Item = PolicyRule> + '_ {
        let on_resources = self.api_groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| {
                self.verbs.iter().flat_map(move |verb| {
                    // Without `resourceNames`, one permission without a name.
                    let unnamed = self.resource_names.is_empty().then(Vec::new);
                    let named = self.resource_names.iter().map(|name| vec![name.clone()]);
                    unnamed.into_iter().chain(named).map(move |resource_names| PolicyRule {
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        verbs: vec![verb.clone()],
                        resource_names,
                        ..PolicyRule::default()
                    })
                })
            })
        });
        let on_paths = self.non_resource_urls.iter().flat_map(move |url| {
            self.verbs.iter().map(move |verb| PolicyRule {
                non_resource_urls: vec![url.clone()],
                verbs: vec![verb.clone()],
                ..PolicyRule::default()
            })
        });
        on_resources.chain(on_paths)
    }
}

/// As messages about escalation print it: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.fields().into_iter().filter(|(_, _, texts)| !texts.is_empty());
        let fields = fields.map(|(_, name, texts)| format!("{name}:{}", quoted(texts)));
        write!(f, "{{{}}}", fields.collect::<Vec<_>>().join(", "))
    }
}

/// Texts as Go's `%q` prints a slice: `["a" "b"]`.
pub(crate) fn quoted(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(" "))
}

/// Rules of a role.
pub fn rules(role: &Value) -> Vec<PolicyRule> {
    let rules = role.at(&["rules"]).and_then(Value::as_list).unwrap_or_default();
    let read = |rule: &Value| {
        kevel_compute::charge(4);
        PolicyRule::read(rule)
    };
    rules.iter().map(read).collect()
}

fn strings(value: &Value, field: &str) -> Vec<String> {
    let list = value.at(&[field]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// True if a rule's resource (`pods`, `pods/log`, `*/scale`, `*`) matches the request's.
fn names(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    let part = |of: &str| rule.strip_prefix(of).and_then(|rest| rest.strip_prefix('/'));
    part(resource) == Some(subresource) || part(ALL) == Some(subresource)
}

/// True if a rule's path equals the request's, or ends with `*` and is a prefix of it.
fn url_covers(rule: &str, asked: &str) -> bool {
    rule == asked || (rule.ends_with('*') && asked.starts_with(rule.trim_end_matches('*')))
}
