//! Aggregated roles, evaluated as if their rules were collected again for every request.

use super::naive::{NAMES, Random, naive_rule, random_request, random_role, text_list};
use super::*;
use crate::PolicyRule;
use crate::aggregation::aggregated;

/// Roles that select among those before them, by labels that all have, at random.
fn random_roles(random: &mut Random) -> Vec<Value> {
    let tiers = ["0", "1", "2"];
    (0..8usize)
        .map(|index| {
            let tier = index * tiers.len() / 8;
            let labels =
                map([("tier", tiers[tier].into()), ("to", random.pick(&NAMES[..2]).into())]);
            let metadata = map([("name", format!("r{index}").as_str().into()), ("labels", labels)]);
            let mut role = random_role(random).as_map().cloned().unwrap();
            role.insert("metadata", metadata);
            if tier > 0 && random.below(3) > 0 {
                let below = random.pick(&tiers[..tier]);
                let by_tier = map([("matchLabels", map([("tier", below.into())]))]);
                let expression = map([
                    ("key", "to".into()),
                    ("operator", random.pick(&["In", "NotIn"]).into()),
                    ("values", words(random.pick(&NAMES[..2]))),
                ]);
                let lower = map([
                    ("key", "tier".into()),
                    ("operator", "In".into()),
                    ("values", words(below)),
                ]);
                let by_both = map([(
                    "matchExpressions",
                    Value::List([expression, lower].into_iter().collect()),
                )]);
                let selectors = match random.below(3) {
                    0 => vec![by_tier],
                    1 => vec![by_both],
                    _ => vec![by_both, by_tier],
                };
                let selectors = Value::List(selectors.into_iter().collect());
                role.insert("aggregationRule", map([("clusterRoleSelectors", selectors)]));
            }
            role.into()
        })
        .collect()
}

/// Whether a role has a rule that allows it, or selects one that has.
fn naive_role(roles: &[Value], role: &Value, asked: &Attributes<'_>) -> bool {
    let Some(rule) = role.at(&["aggregationRule"]) else {
        let rules = role.at(&["rules"]).and_then(Value::as_list).unwrap_or_default();
        return rules.iter().any(|rule| naive_rule(rule, asked));
    };
    let list = |value: &Value, field: &str| -> Vec<Value> {
        let list = value.at(&[field]).and_then(Value::as_list).unwrap_or_default();
        list.to_vec()
    };
    let label = |other: &Value, key: &str| other.str_at(&["metadata", "labels", key]).to_owned();
    let selects = |selector: &Value, other: &Value| {
        let tier = selector.str_at(&["matchLabels", "tier"]);
        let expressions = list(selector, "matchExpressions");
        (tier.is_empty() || label(other, "tier") == tier)
            && expressions.iter().all(|one| {
                let values = text_list(one, "values");
                let is = values.contains(&label(other, one.str_at(&["key"])).as_str());
                is == (one.str_at(&["operator"]) == "In")
            })
    };
    let selectors = list(rule, "clusterRoleSelectors");
    let selected = roles.iter().filter(|other| selectors.iter().any(|one| selects(one, other)));
    selected.into_iter().any(|other| naive_role(roles, other, asked))
}

#[test]
fn gathered_rules_equal_a_naive_evaluation() {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let (mut allowed, mut all) = (0, 0);
    for _ in 0..600 {
        let told = random_roles(&mut random);
        let mut roles = told.clone();
        // One round per tier: an aggregated role may be aggregated, too.
        let mut rounds = 0;
        loop {
            let changed: Vec<(String, Vec<PolicyRule>)> = aggregated(&roles)
                .unwrap()
                .into_iter()
                .map(|(name, rules)| (name.to_owned(), rules))
                .collect();
            if changed.is_empty() {
                break;
            }
            for (name, rules) in changed {
                let role = roles.iter_mut().find(|role| role.str_at(&["metadata", "name"]) == name);
                let rules = rules.iter().map(PolicyRule::to_value).collect();
                role.unwrap().as_map_mut().unwrap().insert("rules", Value::List(rules));
            }
            rounds += 1;
            assert!(rounds <= 3, "{told:?}");
        }
        let mut policy = Policy::default();
        for role in &roles {
            policy.set(Kind::ClusterRole, role.str_at(&["metadata", "name"]), Some(role));
        }
        let bound = random.below(told.len());
        let bound_to = binding(&format!("ClusterRole:r{bound}"), &["User:u"]);
        policy.set(Kind::ClusterRoleBinding, "b", Some(&bound_to));
        let rbac = rbac(&mut policy);
        let user = user("u", &[]);
        for _ in 0..20 {
            let request = random_request(&mut random, &user);
            let expected = naive_role(&told, &told[bound], &request);
            let found = rbac.decide(&request);
            assert_eq!(found.decision == Decision::Allow, expected, "{request:?}\n{told:?}");
            allowed += usize::from(expected);
            all += 1;
        }
    }
    assert!(allowed > all / 20 && allowed < all / 2, "{allowed} of {all}");
}
