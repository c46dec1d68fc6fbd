//! Index that tells which permissions a set of rules covers (upstream: `validation.Covers`).
//!
//! The rules are numbered, and every value of a field has the set of rules that name it. A permission is covered where
//! the sets of its group, resource, verb and object have a rule in common, which is a comparison of a few words of
//! bits. A role of a megabyte has some ten thousand rules, and a small one can ask for as many permissions: comparing
//! each with each would take seconds.

use std::collections::{HashMap, HashSet};

use super::{ALL, MAX_PERMISSIONS, PolicyRule};

/// More permissions than [`MAX_PERMISSIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// Single permissions of `wanted` that no rule of `held` covers.
pub fn uncovered<'c>(
    held: impl IntoIterator<Item = &'c Coverage>,
    wanted: &[PolicyRule],
) -> Result<Vec<PolicyRule>, TooMany> {
    if wanted.len() > MAX_PERMISSIONS {
        return Err(TooMany);
    }
    let mut held: Vec<Query<'_>> = held.into_iter().map(Query::new).collect();
    let mut missing = Vec::new();
    let mut left = MAX_PERMISSIONS;
    for rule in wanted {
        // A rule that is covered as a whole, as all are for an administrator, is not split.
        if held.iter_mut().any(|held| held.covers(rule)) {
            continue;
        }
        let count = rule.count_permissions().filter(|count| *count <= left).ok_or(TooMany)?;
        left -= count;
        let mut covered = vec![false; count];
        held.iter_mut().for_each(|held| held.mark(rule, &mut covered));
        let permissions = rule.permissions().zip(covered);
        missing.extend(permissions.filter(|(_, covered)| !covered).map(|(one, _)| one));
    }
    Ok(missing)
}

/// Index of rules by the values of their fields. A rule has one entry per value, not per combination: the index takes
/// less memory than the rules.
#[derive(Debug, Default)]
pub struct Coverage {
    /// Number of words of the set of all rules.
    words: usize,
    verbs: Field,
    groups: Field,
    resources: Field,
    /// A rule without `resourceNames` covers all names.
    names: Field,
    urls: Field,
    /// Paths that end with `*`.
    patterns: Patterns,
}

impl Coverage {
    /// Indexes rules; equal ones count once.
    pub fn new<'r>(rules: impl IntoIterator<Item = &'r PolicyRule>) -> Self {
        let mut known = HashSet::new();
        let rules = rules.into_iter().inspect(|_| kevel_compute::charge(2));
        let rules: Vec<_> = rules.filter(|rule| known.insert(*rule)).collect();
        let words = rules.len().div_ceil(WORD);
        let field = |values: fn(&PolicyRule) -> &Vec<String>| Field::new(&rules, words, values);
        let mut names = field(|rule| &rule.resource_names);
        let unnamed = numbered(&rules).filter(|(_, rule)| rule.resource_names.is_empty());
        names.any = Members::new(unnamed.map(|(number, _)| number).collect(), words);
        Coverage {
            words,
            verbs: field(|rule| &rule.verbs).with_wildcard(),
            groups: field(|rule| &rule.api_groups).with_wildcard(),
            resources: field(|rule| &rule.resources).with_wildcard(),
            names,
            urls: field(|rule| &rule.non_resource_urls),
            patterns: Patterns::new(&rules, words),
        }
    }
}

/// Number of rules in one word of a set.
const WORD: usize = u64::BITS as usize;

/// Rules with their numbers.
fn numbered<'r>(rules: &[&'r PolicyRule]) -> impl Iterator<Item = (u32, &'r PolicyRule)> {
    (0..).zip(rules.iter().copied())
}

/// Stored set of rules, in the smaller of two forms.
#[derive(Debug)]
enum Members {
    Few(Vec<u32>),
    Many(Vec<u64>),
}

impl Default for Members {
    fn default() -> Self {
        Members::Few(Vec::new())
    }
}

impl Members {
    fn new(numbers: Vec<u32>, words: usize) -> Self {
        if numbers.len() < words {
            return Members::Few(numbers);
        }
        let mut set = Set(vec![0; words]);
        set.add(&Members::Few(numbers));
        Members::Many(set.0)
    }
}

/// Rules by the values of one field.
#[derive(Debug, Default)]
struct Field {
    by_value: HashMap<Box<str>, Members>,
    /// Rules whose field covers every value.
    any: Members,
}

impl Field {
    fn new(rules: &[&PolicyRule], words: usize, values: fn(&PolicyRule) -> &Vec<String>) -> Self {
        let mut by_value: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        for (number, rule) in numbered(rules) {
            for value in values(rule) {
                kevel_compute::charge(1);
                let numbers = match by_value.get_mut(value.as_str()) {
                    Some(numbers) => numbers,
                    None => by_value.entry(value.as_str().into()).or_default(),
                };
                // A rule may name a value twice.
                if numbers.last() != Some(&number) {
                    numbers.push(number);
                }
            }
        }
        let by_value = by_value.into_iter();
        let by_value = by_value.map(|(value, numbers)| {
            kevel_compute::charge(1);
            (value, Members::new(numbers, words))
        });
        Field { by_value: by_value.collect(), any: Members::default() }
    }

    /// Takes `*` as a wildcard for every value.
    fn with_wildcard(mut self) -> Self {
        self.any = self.by_value.remove(ALL).unwrap_or_default();
        self
    }

    fn get(&self, value: &str) -> Option<&Members> {
        self.by_value.get(value)
    }
}

/// Rules with paths that end with `*`, by prefix.
#[derive(Debug, Default)]
struct Patterns {
    /// Sorted by prefix.
    sorted: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    prefix: Box<str>,
    /// Longest other prefix of this prefix.
    parent: Option<usize>,
    rules: Members,
}

impl Patterns {
    fn new(rules: &[&PolicyRule], words: usize) -> Self {
        let mut all: Vec<(&str, u32)> = Vec::new();
        for (number, rule) in numbered(rules) {
            let patterns = rule.non_resource_urls.iter().filter(|url| url.ends_with('*'));
            all.extend(patterns.map(|url| (url.trim_end_matches('*'), number)));
        }
        all.sort_unstable();
        all.dedup();
        let mut sorted: Vec<Pattern> = Vec::new();
        // Prefixes of the last one, each a prefix of the next.
        let mut open: Vec<usize> = Vec::new();
        for same in all.chunk_by(|(one, _), (other, _)| one == other) {
            let Some((prefix, _)) = same.first() else { continue };
            let begins = |at: usize| sorted.get(at).is_some_and(|p| prefix.starts_with(&*p.prefix));
            while open.last().is_some_and(|at| !begins(*at)) {
                open.pop();
            }
            let numbers = same.iter().map(|(_, number)| *number).collect();
            let (parent, rules) = (open.last().copied(), Members::new(numbers, words));
            open.push(sorted.len());
            sorted.push(Pattern { prefix: (*prefix).into(), parent, rules });
        }
        Patterns { sorted }
    }

    /// Patterns that match a path. All of them are prefixes of the last prefix that is not after the path.
    fn matching<'p, 'u>(&'p self, url: &'u str) -> impl Iterator<Item = &'p Members> + use<'p, 'u> {
        let last = self.sorted.partition_point(|pattern| *pattern.prefix <= *url).checked_sub(1);
        let at = move |at: usize| self.sorted.get(at);
        let chain = std::iter::successors(last.and_then(at), move |pattern| at(pattern.parent?));
        chain.filter(|pattern| url.starts_with(&*pattern.prefix)).map(|pattern| &pattern.rules)
    }
}

/// Working set of rules, one bit each.
#[derive(Clone, Debug)]
struct Set(Vec<u64>);

impl Set {
    fn fill(&mut self, word: u64) {
        self.0.fill(word);
    }

    fn add(&mut self, members: &Members) {
        match members {
            Members::Few(numbers) => {
                for number in numbers {
                    if let Some(word) = self.0.get_mut(*number as usize / WORD) {
                        *word |= 1 << (*number as usize % WORD);
                    }
                }
            }
            Members::Many(words) => {
                self.0.iter_mut().zip(words).for_each(|(own, other)| *own |= other);
            }
        }
    }

    /// Intersects with another set; true if any rule is left.
    fn keep(&mut self, other: &Set) -> bool {
        kevel_compute::charge(1 + self.0.len() / 16);
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
        self.0.iter().any(|word| *word != 0)
    }

    fn meets(&self, members: &Members) -> bool {
        match members {
            Members::Few(numbers) => numbers.iter().any(|number| {
                let word = self.0.get(*number as usize / WORD).copied().unwrap_or_default();
                word & 1 << (*number as usize % WORD) != 0
            }),
            Members::Many(words) => self.0.iter().zip(words).any(|(own, other)| own & other != 0),
        }
    }
}

/// Queries of an index, which share working sets.
struct Query<'c> {
    index: &'c Coverage,
    common: Set,
    of_field: Set,
    of_value: Set,
}

impl<'c> Query<'c> {
    fn new(index: &'c Coverage) -> Self {
        let empty = Set(vec![0; index.words]);
        Query { index, common: empty.clone(), of_field: empty.clone(), of_value: empty }
    }

    /// True if a single rule covers the whole given one. A rule that only several cover together is not covered,
    /// unless it is a single permission.
    fn covers(&mut self, rule: &PolicyRule) -> bool {
        let index = self.index;
        self.common.fill(u64::MAX);
        if rule.resource_names.is_empty() && !self.narrow_to(&index.names.any) {
            return false;
        }
        self.narrow(&rule.verbs, &index.verbs.any, |verb| index.verbs.get(verb).into_iter())
            && self.narrow(&rule.api_groups, &index.groups.any, |group| {
                index.groups.get(group).into_iter()
            })
            && self.narrow(&rule.resources, &index.resources.any, |r| index.resource(r))
            && self.narrow(&rule.resource_names, &index.names.any, |name| {
                index.names.get(name).into_iter()
            })
            && self.narrow(&rule.non_resource_urls, &Members::default(), |url| index.url(url))
    }

    /// Narrows to the rules that cover all of some values; true if any is left.
    fn narrow<'v, M: Iterator<Item = &'c Members>>(
        &mut self,
        values: &'v [String],
        any: &Members,
        holders: impl Fn(&'v str) -> M,
    ) -> bool {
        if values.is_empty() {
            return true;
        }
        self.of_field.fill(u64::MAX);
        for value in values {
            self.of_value.fill(0);
            holders(value).for_each(|members| self.of_value.add(members));
            if !self.of_field.keep(&self.of_value) {
                break;
            }
        }
        self.of_field.add(any);
        self.common.keep(&self.of_field)
    }

    fn narrow_to(&mut self, members: &Members) -> bool {
        self.of_field.fill(0);
        self.of_field.add(members);
        self.common.keep(&self.of_field)
    }

    /// Marks the permissions that a rule of the index covers, in the order of [`PolicyRule::permissions`].
    fn mark(&mut self, rule: &PolicyRule, covered: &mut [bool]) {
        let index = self.index;
        let mut marks = covered.iter_mut();
        let mut mark = |is_covered: bool| {
            if let Some(mark) = marks.next() {
                *mark |= is_covered;
            }
        };
        for group in &rule.api_groups {
            for resource in &rule.resources {
                self.common.fill(0);
                self.common.add(&index.groups.any);
                index.groups.get(group).into_iter().for_each(|held| self.common.add(held));
                self.of_field.fill(0);
                self.of_field.add(&index.resources.any);
                index.resource(resource).for_each(|held| self.of_field.add(held));
                self.common.keep(&self.of_field);
                self.mark_verbs(rule, &rule.resource_names, &mut mark);
            }
        }
        for url in &rule.non_resource_urls {
            self.common.fill(0);
            index.url(url).for_each(|held| self.common.add(held));
            self.mark_verbs(rule, &[], &mut mark);
        }
    }

    /// Marks the permissions for a rule's verbs and the given names.
    fn mark_verbs(&mut self, rule: &PolicyRule, names: &[String], mark: &mut impl FnMut(bool)) {
        let index = self.index;
        if names.is_empty() {
            self.narrow_to(&index.names.any);
        }
        for verb in &rule.verbs {
            let held = index.verbs.get(verb);
            if names.is_empty() {
                let meets = |members: &Members| self.common.meets(members);
                mark(meets(&index.verbs.any) || held.is_some_and(meets));
                continue;
            }
            self.of_value.fill(0);
            self.of_value.add(&index.verbs.any);
            held.into_iter().for_each(|held| self.of_value.add(held));
            self.of_value.keep(&self.common);
            let all = self.of_value.meets(&index.names.any);
            for name in names {
                let named = |held: &Members| self.of_value.meets(held);
                mark(all || index.names.get(name).is_some_and(named));
            }
        }
    }
}

impl Coverage {
    /// Rules with a resource, or for a subresource with `*/subresource`.
    fn resource(&self, resource: &str) -> impl Iterator<Item = &Members> + use<'_> {
        let subresource = resource.split_once('/').map(|(_, subresource)| subresource);
        let shared = subresource.and_then(|name| self.resources.get(&format!("*/{name}")));
        self.resources.get(resource).into_iter().chain(shared)
    }

    fn url<'c, 'u>(&'c self, url: &'u str) -> impl Iterator<Item = &'c Members> + use<'c, 'u> {
        self.urls.get(url).into_iter().chain(self.patterns.matching(url))
    }
}

#[cfg(test)]
mod tests;
