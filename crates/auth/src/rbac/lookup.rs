//! Index of the rules of roles, to look up those that may match a request.

use std::collections::{HashMap, HashSet};

use kevel_server::authorization::Attributes;

use crate::rule::PolicyRule;

/// Position of a rule: index of its role among the indexed ones, and index in the role.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleIndex {
    pub grant: usize,
    pub rule: usize,
}

/// Index of rules. A rule has one entry per name, resource and group, not per combination.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// Rules with `resourceNames`, by name.
    names: HashMap<Box<str>, Vec<RuleIndex>>,
    /// Other resource rules by resource: `pods`, `pods/log`, `*/scale`, `*`.
    resources: HashMap<Box<str>, Vec<RuleIndex>>,
    /// Other resource rules by group.
    groups: HashMap<Box<str>, Vec<RuleIndex>>,
    urls: HashMap<Box<str>, Vec<RuleIndex>>,
    /// Rules with a path that ends with `*`.
    url_patterns: Vec<RuleIndex>,
}

impl Lookup {
    /// Indexes the rules of roles, each with its number.
    pub fn new<'r>(roles: impl Iterator<Item = (usize, &'r [PolicyRule])>) -> Self {
        let mut lookup = Lookup::default();
        // Equal rules of many roles are indexed once.
        let mut known = HashSet::new();
        for (grant, rules) in roles {
            for (rule, content) in rules.iter().enumerate() {
                kevel_compute::charge(4);
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
                kevel_compute::charge(1);
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

    /// Positions of all rules that may allow the request.
    pub fn candidates(&self, asked: &Attributes<'_>) -> impl Iterator<Item = RuleIndex> + use<'_> {
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
            // A rule must match both, so that the shorter list suffices.
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
