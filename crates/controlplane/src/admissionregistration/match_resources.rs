//! Validation of match rules of webhooks, policies and bindings.

use std::collections::HashSet;

use kevel_api::name;

use super::MATCH_POLICIES;
use crate::validation::Field;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];

/// Checks `matchConstraints` of policies and `matchResources` of bindings.
pub(super) fn match_resources(resources: Field) {
    if resources.is_absent() {
        return;
    }
    let policy = resources.at("matchPolicy");
    match policy.is_set() {
        true => policy.one_of(MATCH_POLICIES),
        false => policy.required(""),
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        let selector = resources.at(selector);
        match selector.is_set() {
            true => selector.label_selector(false),
            false => selector.required(""),
        }
    }
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.at(rules).items() {
            let mut names = HashSet::new();
            for name in rule.at("resourceNames").items() {
                name.object_name(name::is_path_segment_name);
                name.unique(&mut names, name.str());
            }
            rule_with_operations(rule);
        }
    }
}

/// Checks a RuleWithOperations.
pub(super) fn rule_with_operations(rule: Field) {
    let operations = rule.at("operations");
    operations.must("");
    alone(operations, "if '*' is present, must not specify other operations");
    operations.items().for_each(|operation| operation.one_of(OPERATIONS));
    let (groups, versions) = (rule.at("apiGroups"), rule.at("apiVersions"));
    groups.must("");
    alone(groups, "if '*' is present, must not specify other API groups");
    versions.must("");
    alone(versions, "if '*' is present, must not specify other API versions");
    for version in versions.items() {
        version.must("");
    }
    resources(rule.at("resources"));
    let scope = rule.at("scope");
    if scope.is_set() {
        scope.one_of(SCOPES);
    }
}

/// Checks that `*` is the only item of a list.
fn alone(list: Field, why: &'static str) {
    if list.len() > 1 && list.strings().any(|item| item == "*") {
        list.invalid(why);
    }
}

/// Checks resources: `pods`, `pods/status`, `pods/*`, `*/status`, `*`, `*/*`.
fn resources(resources: Field) {
    resources.must("");
    let (mut all_parts_of, mut part_of_all) = (HashSet::new(), HashSet::new());
    let (mut all, mut whole) = (false, false);
    for resource in resources.items() {
        let said = resource.str();
        if said.is_empty() {
            resource.required("");
            continue;
        }
        all |= said == "*";
        let Some((of, part)) = said.split_once('/') else {
            // The reference keeps only the state of the last item.
            whole = said != "*";
            continue;
        };
        if all_parts_of.contains(of) {
            resource.invalid(format!("if '{of}/*' is present, must not specify {said}"));
        }
        if part_of_all.contains(part) {
            resource.invalid(format!("if '*/{part}' is present, must not specify {said}"));
        }
        if part == "*" {
            all_parts_of.insert(of);
        }
        if of == "*" {
            part_of_all.insert(part);
        }
    }
    if resources.len() > 1 && resources.strings().any(|said| said == "*/*") {
        resources.invalid("if '*/*' is present, must not specify other resources");
    }
    if all && whole {
        let why = "if '*' is present, must not specify other resources without subresources";
        resources.invalid(why);
    }
}
