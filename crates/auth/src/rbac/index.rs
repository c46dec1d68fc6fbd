//! Who has which rules where, as decisions read it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use kevel_server::authorization::Attributes;
use kevel_server::user::User;

use super::policy::{Binding, Role, RoleRef};
use crate::rule::{Coverage, PolicyRule};

/// Beyond this many rules of one subject, those that matter are looked up rather than searched for.
const SEARCHED_RULES: usize = 64;

/// All grants at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub cluster: Arc<Scope>,
    pub namespaces: HashMap<Arc<str>, Arc<Scope>>,
}

/// The grants of one namespace, or of the whole cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub users: HashMap<Arc<str>, Arc<Grants>>,
    pub groups: HashMap<Arc<str>, Arc<Grants>>,
}

impl Scope {
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }
}

impl Index {
    /// What a user has in a namespace: first what they have everywhere.
    pub fn of<'i>(
        &'i self,
        user: &'i User,
        namespace: &str,
    ) -> impl Iterator<Item = &'i Arc<Grants>> + use<'i> {
        let local = self.namespaces.get(namespace).filter(|_| !namespace.is_empty());
        [Some(&self.cluster), local].into_iter().flatten().flat_map(|scope| {
            let own = scope.users.get(user.name.as_str());
            let shared = user.groups.iter().filter_map(|group| scope.groups.get(group.as_str()));
            own.into_iter().chain(shared)
        })
    }
}

/// What one user or group has in one scope: each role once, whatever the number of bindings to it.
#[derive(Debug, Default)]
pub(super) struct Grants {
    pub grants: Vec<Grant>,
    /// Roles that are bound and not there.
    pub missing: Vec<RoleRef>,
    lookup: Option<Lookup>,
    /// Coverage of the rules, computed at the first escalation check.
    coverage: OnceLock<Coverage>,
}

/// A role, and a binding to it.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub role: Arc<Role>,
    pub binding: Arc<Binding>,
}

impl Grants {
    pub fn new(grants: Vec<Grant>, missing: Vec<RoleRef>) -> Self {
        let rules: usize = grants.iter().map(|grant| grant.role.rules.len()).sum();
        let lookup = (rules > SEARCHED_RULES).then(|| Lookup::new(&grants));
        Grants { grants, missing, lookup, coverage: OnceLock::new() }
    }

    /// Coverage of the rules, computed once for as long as the rules stay the same.
    pub fn coverage(&self) -> &Coverage {
        self.coverage
            .get_or_init(|| Coverage::new(self.grants.iter().flat_map(|grant| &grant.role.rules)))
    }

    /// The binding by which something is allowed.
    pub fn allowing(&self, asked: &Attributes<'_>) -> Option<&Arc<Binding>> {
        let found = match &self.lookup {
            None => {
                let allows =
                    |grant: &&Grant| grant.role.rules.iter().any(|rule| rule.allows(asked));
                self.grants.iter().find(allows)
            }
            Some(lookup) => {
                let allowed =
                    |place: &RuleIndex| self.rule(*place).is_some_and(|r| r.allows(asked));
                let place = lookup.candidates(asked).find(|place| allowed(place));
                place.and_then(|place| self.grants.get(place.grant))
            }
        };
        found.map(|grant| &grant.binding)
    }

    fn rule(&self, place: RuleIndex) -> Option<&PolicyRule> {
        self.grants.get(place.grant)?.role.rules.get(place.rule)
    }
}

/// Where a rule stands.
#[derive(Clone, Copy, Debug)]
struct RuleIndex {
    grant: usize,
    rule: usize,
}

/// The rules of a subject by what they are about. Each rule stands here as often as it has names,
/// resources and groups, never as often as they combine.
#[derive(Debug, Default)]
struct Lookup {
    /// Rules that name objects, by those names.
    names: HashMap<Box<str>, Vec<RuleIndex>>,
    /// The others, by resource: `pods`, `pods/log`, `*/scale`, `*`.
    resources: HashMap<Box<str>, Vec<RuleIndex>>,
    /// The same, by group.
    groups: HashMap<Box<str>, Vec<RuleIndex>>,
    urls: HashMap<Box<str>, Vec<RuleIndex>>,
    /// Those with a path that ends with a star.
    url_patterns: Vec<RuleIndex>,
}

impl Lookup {
    fn new(grants: &[Grant]) -> Self {
        let mut lookup = Lookup::default();
        // Of rules that are the same, as many roles have them, one is enough.
        let mut known = HashSet::new();
        for (grant, role) in grants.iter().map(|grant| &grant.role).enumerate() {
            for (rule, content) in role.rules.iter().enumerate() {
                if known.insert(content) {
                    lookup.add(RuleIndex { grant, rule }, content);
                }
            }
        }
        lookup
    }

    fn add(&mut self, place: RuleIndex, rule: &PolicyRule) {
        let add = |to: &mut HashMap<Box<str>, Vec<RuleIndex>>, keys: &[String]| {
            for key in keys {
                to.entry(key.as_str().into()).or_default().push(place);
            }
        };
        if rule.resource_names.is_empty() {
            add(&mut self.resources, &rule.resources);
            add(&mut self.groups, &rule.api_groups);
        } else {
            add(&mut self.names, &rule.resource_names);
        }
        add(&mut self.urls, &rule.non_resource_urls);
        if rule.non_resource_urls.iter().any(|url| url.ends_with('*')) {
            self.url_patterns.push(place);
        }
    }

    /// The places of all rules that may allow something.
    fn candidates(&self, asked: &Attributes<'_>) -> impl Iterator<Item = RuleIndex> + use<'_> {
        let lists: [&[RuleIndex]; 4] = if !asked.is_resource {
            [at(&self.urls, asked.path), &self.url_patterns, &[], &[]]
        } else {
            let (resource, subresource) = (asked.resource, asked.subresource);
            let [exact, any] = match subresource {
                "" => [at(&self.resources, resource), &[]],
                _ => [resource, "*"].map(|of| at(&self.resources, &format!("{of}/{subresource}"))),
            };
            let by_resource = [exact, any, at(&self.resources, "*")];
            let by_group = [at(&self.groups, asked.group), at(&self.groups, "*"), &[]];
            // A rule has to have both, so the shorter way finds it.
            let length =
                |lists: &[&[RuleIndex]; 3]| lists.iter().map(|list| list.len()).sum::<usize>();
            let shorter =
                if length(&by_group) < length(&by_resource) { by_group } else { by_resource };
            let [first, second, third] = shorter;
            [at(&self.names, asked.name), first, second, third]
        };
        lists.into_iter().flatten().copied()
    }
}

fn at<'l>(map: &'l HashMap<Box<str>, Vec<RuleIndex>>, key: &str) -> &'l [RuleIndex] {
    map.get(key).map_or(&[], Vec::as_slice)
}
