//! Validation of affinity, node selectors and topology spread constraints.

use std::collections::{HashMap, HashSet};

use kevel_api::field_error::BadValue;
use kevel_api::name;

use super::Options;
use crate::validation::Field;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub fn check(affinity: Field, options: &Options) {
    if affinity.is_absent() {
        return;
    }
    let nodes = affinity.at("nodeAffinity");
    if nodes.at(REQUIRED).is_set() {
        node_selector(nodes.at(REQUIRED), options.tolerates.node_affinity_values);
    }
    for term in nodes.at(PREFERRED).items() {
        weight(term);
        node_selector_term(term.at("preference"), true);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.at(kind);
        for term in pods.at(REQUIRED).items() {
            pod_affinity_term(term, options);
        }
        for term in pods.at(PREFERRED).items() {
            weight(term);
            pod_affinity_term(term.at("podAffinityTerm"), options);
        }
    }
}

fn weight(term: Field) {
    let weight = term.at("weight");
    if !(1..=100).contains(&weight.int()) {
        weight.invalid_as(weight.int(), "must be in the range 1-100");
    }
}

/// Checks a NodeSelector. With `any_values`, values that are not valid label values pass, as they did when stored.
pub fn node_selector(selector: Field, any_values: bool) {
    let terms = selector.at("nodeSelectorTerms");
    if terms.must("must have at least one node selector term") {
        terms.items().for_each(|term| node_selector_term(term, any_values));
    }
}

pub fn node_selector_term(term: Field, any_values: bool) {
    for expression in term.at("matchExpressions").items() {
        let (operator, values) = (expression.at("operator"), expression.at("values"));
        match operator.str() {
            "In" | "NotIn" => {
                values.must("must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    values.forbidden(why);
                }
            }
            "Gt" | "Lt" => {
                if values.len() != 1 {
                    let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    values.required(why);
                }
            }
            _ => unknown_operator(operator),
        }
        expression.at("key").label_name();
        if !any_values {
            values.items().for_each(|value| value.form(name::is_label_value));
        }
    }
    for field in term.at("matchFields").items() {
        let (operator, values) = (field.at("operator"), field.at("values"));
        match operator.str() {
            "In" | "NotIn" if values.len() != 1 => values.required(
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ),
            "In" | "NotIn" => {}
            _ => unknown_operator(operator),
        }
        match field.at("key").str() {
            "metadata.name" => {
                values.items().for_each(|value| value.object_name(name::name_is_dns_subdomain));
            }
            _ => field.at("key").invalid("not a valid field selector key"),
        }
    }
}

fn unknown_operator(operator: Field) {
    operator.invalid_as(BadValue::named_string(operator.str()), "not a valid selector operator");
}

fn pod_affinity_term(term: Field, options: &Options) {
    term.at("labelSelector").label_selector(options.tolerates.selector_values);
    term.at("namespaceSelector").label_selector(options.tolerates.selector_values);
    for namespace in term.at("namespaces").strings() {
        for problem in name::name_is_dns_label(namespace, false) {
            term.at("namespace").invalid_as(namespace, problem);
        }
    }
    match_label_keys(term);
    let key = term.at("topologyKey");
    key.must("can not be empty");
    key.label_name();
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys`: keys of the pod's own labels that are merged into the selector.
pub fn match_label_keys(term: Field) {
    let selector = term.at("labelSelector");
    let (matched, mismatched) = (term.at("matchLabelKeys"), term.at("mismatchLabelKeys"));
    for keys in [matched, mismatched] {
        match selector.is_set() {
            true => keys.items().for_each(|key| key.label_name()),
            false if keys.is_empty() => {}
            false => keys.forbidden("must not be specified when labelSelector is not set"),
        }
    }
    if selector.is_set() {
        let mut known: HashSet<&str> = selector.at("matchLabels").keys().collect();
        // Of equal keys the last index is reported, as an item of the term.
        let places: HashMap<&str, usize> =
            matched.strings().enumerate().map(|(at, key)| (key, at)).collect();
        for expression in selector.at("matchExpressions").items() {
            let key = expression.at("key").str();
            if let Some(at) = places.get(key).filter(|_| known.contains(key)) {
                let why = "exists in both matchLabelKeys and labelSelector";
                term.index(*at).invalid_as(key, why);
            }
            known.insert(key);
        }
    }
    let mismatched: HashSet<&str> = mismatched.strings().collect();
    for key in matched.items() {
        if mismatched.contains(key.str()) {
            key.invalid("exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// True if required node affinity has values that are not valid label values.
pub fn has_odd_node_values(affinity: Field) -> bool {
    let nodes = affinity.at("nodeAffinity");
    let selector = nodes.at(REQUIRED);
    selector.at("nodeSelectorTerms").items().any(|term| term.has_odd_values())
}

/// True if pod affinity or anti-affinity selectors have values that are not valid label values.
pub fn has_odd_selectors(affinity: Field) -> bool {
    let odd = |term: Field| {
        term.at("labelSelector").has_odd_values() || term.at("namespaceSelector").has_odd_values()
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let pods = affinity.at(kind);
        let (required, preferred) = (pods.at(REQUIRED), pods.at(PREFERRED));
        required.items().any(odd) || preferred.items().any(|term| odd(term.at("podAffinityTerm")))
    })
}

/// Checks topology spread constraints.
pub fn topology_spread(constraints: Field, options: &Options) {
    let pairs = constraints.list().iter().map(|constraint| {
        (constraint.str_at(&["topologyKey"]), constraint.str_at(&["whenUnsatisfiable"]))
    });
    let last: HashMap<(&str, &str), usize> =
        pairs.enumerate().map(|(index, pair)| (pair, index)).collect();
    for (index, constraint) in constraints.items().enumerate() {
        constraint.at("maxSkew").positive();
        let (key, action) = (constraint.at("topologyKey"), constraint.at("whenUnsatisfiable"));
        key.must("can not be empty");
        action.one_of(&["DoNotSchedule", "ScheduleAnyway"]);
        if last.get(&(key.str(), action.str())).is_some_and(|last| *last > index) {
            let both = format!("{{{}, {}}}", key.str(), action.str());
            constraint.at("{topologyKey, whenUnsatisfiable}").duplicate_as(both);
        }
        let domains = constraint.at("minDomains");
        if domains.is_set() {
            domains.positive();
            if action.str() != "DoNotSchedule" {
                domains.invalid(format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    action.str()
                ));
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.at(policy);
            if policy.is_set() {
                policy.one_of(&["Honor", "Ignore"]);
            }
        }
        match options.tolerates.spread_label_keys {
            true => old_match_label_keys(constraint),
            false => match_label_keys(constraint),
        }
        if !options.tolerates.spread_selectors {
            constraint.at("labelSelector").label_selector(false);
        }
    }
}

/// Checks `matchLabelKeys` by the rule from before they were merged into the selector.
fn old_match_label_keys(constraint: Field) {
    let (keys, selector) = (constraint.at("matchLabelKeys"), constraint.at("labelSelector"));
    if keys.is_empty() {
        return;
    }
    if selector.is_absent() {
        keys.forbidden("must not be specified when labelSelector is not set");
    }
    let expressions = selector.at("matchExpressions").list().iter().map(|e| e.str_at(&["key"]));
    let known: HashSet<&str> = selector.at("matchLabels").keys().chain(expressions).collect();
    for key in keys.items() {
        key.label_name();
        if known.contains(key.str()) {
            key.invalid("exists in both matchLabelKeys and labelSelector");
        }
    }
}
