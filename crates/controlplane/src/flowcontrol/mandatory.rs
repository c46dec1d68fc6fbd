//! What every server relies on: the schemas and levels that are as they are.

use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any};

use crate::validation::Field;

/// The name of what is never queued, schema and level alike.
pub(super) const EXEMPT: &str = "exempt";
const CATCH_ALL: &str = "catch-all";

/// The specs of flow schemas that nobody may change.
const FLOW_SCHEMAS: &[(&str, &str)] = &[
    (
        EXEMPT,
        r#"{"matchingPrecedence": 1, "priorityLevelConfiguration": {"name": "exempt"}, "rules": [
            {"subjects": [{"kind": "Group", "group": {"name": "system:masters"}}],
             "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                                "clusterScope": true, "namespaces": ["*"]}],
             "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}"#,
    ),
    (
        CATCH_ALL,
        r#"{"matchingPrecedence": 10000, "priorityLevelConfiguration": {"name": "catch-all"},
            "distinguisherMethod": {"type": "ByUser"}, "rules": [
            {"subjects": [{"kind": "Group", "group": {"name": "system:unauthenticated"}},
                          {"kind": "Group", "group": {"name": "system:authenticated"}}],
             "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                                "clusterScope": true, "namespaces": ["*"]}],
             "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}"#,
    ),
];

/// The same of priority levels.
const PRIORITY_LEVELS: &[(&str, &str)] = &[(
    CATCH_ALL,
    r#"{"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0,
        "limitResponse": {"type": "Reject"}}}"#,
)];

/// Checks that a flow schema that must be there is what it must be.
pub(super) fn flow_schema(spec: Field, name: &str) {
    fixed(spec, name, FLOW_SCHEMAS);
}

/// Checks the same of a priority level. What is exempt may still say how much it lends.
pub(super) fn priority_level(spec: Field, name: &str) {
    fixed(spec, name, PRIORITY_LEVELS);
    let exempt = spec.at("type").str() == "Exempt" && spec.at("limited").is_absent();
    if name == EXEMPT && !exempt {
        spec.invalid(format!(
            "spec of '{EXEMPT}' except the 'spec.exempt' field must equal the fixed value"
        ));
    }
}

fn fixed(spec: Field, name: &str, all: &[(&str, &str)]) {
    let fixed = all.iter().find(|(fixed, _)| *fixed == name).and_then(|(_, text)| value(text));
    if fixed.is_some_and(|fixed| !spec.same(&spec.with(Some(&fixed)))) {
        spec.invalid(format!("spec of '{name}' must equal the fixed value"));
    }
}

fn value(text: &str) -> Option<Value> {
    Some(decode_any(text.as_bytes(), Unknown::Ignore).ok()?.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_json() {
        let all = FLOW_SCHEMAS.iter().chain(PRIORITY_LEVELS);
        assert_eq!(all.filter(|(_, text)| value(text).is_none()).count(), 0);
    }
}
