use std::time::Duration;

use kevel_clock::Stopwatch;

use super::super::url_covers;
use super::*;

fn words(text: &str) -> Vec<String> {
    text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Rule with these verbs, groups, resources and names.
fn on(verbs: &str, groups: &str, resources: &str, names: &str) -> PolicyRule {
    PolicyRule {
        verbs: words(verbs),
        api_groups: words(groups),
        resources: words(resources),
        resource_names: words(names),
        ..PolicyRule::default()
    }
}

fn url(verbs: &str, urls: &str) -> PolicyRule {
    PolicyRule { verbs: words(verbs), non_resource_urls: words(urls), ..PolicyRule::default() }
}

#[test]
fn rules_are_covered_permission_by_permission() {
    for (held, wanted, missing) in [
        (vec![on("*", "*", "*", "")], on("get", "a", "b/c", "d"), vec![]),
        (vec![on("*", "*", "*", "")], url("get", "/"), vec![url("get", "/")]),
        (
            vec![on("get", "a", "b", ""), on("list", "a", "b", "")],
            on("get list", "a", "b", ""),
            vec![],
        ),
        (
            vec![on("get", "a", "b", ""), on("list", "a", "c", "")],
            on("get list", "a", "b c", ""),
            vec![on("list", "a", "b", ""), on("get", "a", "c", "")],
        ),
        (vec![on("get", "a", "b", "x y")], on("get", "a", "b", "x"), vec![]),
        (vec![on("get", "a", "b", "")], on("get", "a", "b", "x"), vec![]),
        (vec![on("get", "a", "b", "x")], on("get", "a", "b", ""), vec![on("get", "a", "b", "")]),
        (vec![on("get", "a", "*/s", "")], on("get", "a", "b/s", ""), vec![]),
        (vec![on("get", "a", "*/s", "")], on("get", "a", "b", ""), vec![on("get", "a", "b", "")]),
        (vec![on("get", "a", "b", "")], on("get", "a", "b/", ""), vec![on("get", "a", "b/", "")]),
        (vec![on("get", "a", "b", "")], on("*", "a", "b", ""), vec![on("*", "a", "b", "")]),
        (vec![url("get", "/a/*")], url("get", "/a/b /a/*"), vec![]),
        (vec![url("get", "/a/*")], url("get", "/a"), vec![url("get", "/a")]),
        (vec![url("get", "*")], url("get", "/a/*"), vec![]),
        // Without groups a rule allows nothing.
        (vec![], on("get", "", "b", ""), vec![]),
    ] {
        let held = Coverage::new(&held);
        assert_eq!(uncovered([&held], std::slice::from_ref(&wanted)), Ok(missing), "{wanted}");
    }
}

#[test]
fn a_rule_that_explodes_is_refused() {
    let many = (0..100).map(|i| i.to_string()).collect::<Vec<_>>().join(" ");
    let wanted = [on(&many, &many, &many, &many)];
    assert_eq!(uncovered([], &wanted), Err(TooMany));
    let everything = Coverage::new(&[on("*", "*", "*", "")]);
    assert_eq!(uncovered([&everything], &wanted), Ok(vec![]));
}

/// True if one rule covers another, by the definition: a model for the index.
fn covers(own: &PolicyRule, other: &PolicyRule) -> bool {
    fn has_all(own: &[String], asked: &[String]) -> bool {
        own.iter().any(|text| text == ALL) || asked.iter().all(|text| own.contains(text))
    }
    fn resource_covers(own: &str, asked: &str) -> bool {
        let any_of = |(_, subresource)| own.strip_prefix("*/") == Some(subresource);
        own == ALL || own == asked || asked.split_once('/').is_some_and(any_of)
    }
    let covered = |asked: &String| own.resources.iter().any(|own| resource_covers(own, asked));
    let reached = |asked: &String| own.non_resource_urls.iter().any(|own| url_covers(own, asked));
    has_all(&own.verbs, &other.verbs)
        && has_all(&own.api_groups, &other.api_groups)
        && other.resources.iter().all(covered)
        && match (own.resource_names.as_slice(), other.resource_names.as_slice()) {
            ([], _) => true,
            (_, []) => false,
            (own, asked) => asked.iter().all(|name| own.contains(name)),
        }
        && other.non_resource_urls.iter().all(reached)
}

/// Missing permissions, found by comparing each rule with each.
fn naively_uncovered(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let covered = |rule: &PolicyRule| held.iter().any(|own| covers(own, rule));
    let apart = wanted.iter().filter(|rule| !covered(rule)).flat_map(PolicyRule::permissions);
    apart.filter(|permission| !covered(permission)).collect()
}

/// Pseudorandom numbers, the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    fn some(&mut self, of: &[&str], most: usize) -> Vec<String> {
        (0..self.below(most + 1)).map(|_| of[self.below(of.len())].to_owned()).collect()
    }

    fn rule(&mut self) -> PolicyRule {
        let on_resources = self.below(4) > 0;
        let mut rule = PolicyRule {
            verbs: self.some(&["get", "list", "watch", "*", "create"], 3),
            ..PolicyRule::default()
        };
        if on_resources {
            rule.api_groups = self.some(&["", "apps", "batch", "*"], 2);
            rule.resources = self.some(&["a", "b", "a/s", "b/s", "*/s", "*/", "a/", "*"], 3);
            rule.resource_names = self.some(&["x", "y", "z"], 2);
        }
        if !on_resources || self.below(8) == 0 {
            let urls = ["/", "/*", "*", "/a", "/a/", "/a/*", "/a*", "/a/b", "/a/b/**", "/b/c", ""];
            rule.non_resource_urls = self.some(&urls, 3);
        }
        rule
    }
}

#[test]
fn index_agrees_with_comparing_each_rule_with_each() {
    let mut random = Random(1);
    for round in 0..4000 {
        // With more than 64 rules a set has several words.
        let most = if round % 20 == 0 { 300 } else { 6 };
        let rules = |random: &mut Random, most: usize| -> Vec<PolicyRule> {
            (0..random.below(most)).map(|_| random.rule()).collect()
        };
        let (held, wanted) = (rules(&mut random, most), rules(&mut random, 5));
        let (first, second) = held.split_at(held.len() / 3);
        let indexes = [Coverage::new(first), Coverage::new(second)];
        let expected = naively_uncovered(&held, &wanted);
        assert_eq!(
            uncovered(&indexes, &wanted),
            Ok(expected),
            "round {round}: {held:?} {wanted:?}"
        );
    }
}

/// At least ten times the duration of a debug build for 18,000 permissions over 19,000 rules.
const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn many_permissions_over_many_rules_take_little_time() {
    let names = |prefix: &str, range: std::ops::Range<usize>| -> Vec<String> {
        range.map(|number| format!("{prefix}{number}")).collect()
    };
    let wanted = PolicyRule {
        verbs: names("v", 0..60),
        api_groups: vec![String::new()],
        resources: names("r", 0..300),
        ..PolicyRule::default()
    };
    // Half of the rules have every wanted verb, the others the wanted resources: no rule has both.
    let held: Vec<PolicyRule> = (0..19_000)
        .map(|number| match number % 2 {
            0 => PolicyRule { resources: names("other", number..number + 1), ..wanted.clone() },
            _ => PolicyRule {
                verbs: names("other", number..number + 1),
                resources: names("r", number % 300..number % 300 + 1),
                ..wanted.clone()
            },
        })
        .collect();
    let held = Coverage::new(&held);
    let started = Stopwatch::start();
    let missing = uncovered([&held], std::slice::from_ref(&wanted)).unwrap();
    assert_eq!(missing.len(), 60 * 300);
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
}
