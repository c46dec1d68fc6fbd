//! Warnings about deprecated node labels in selectors.

use kevel_api::name;
use kevel_api::warning::WarningList;

use crate::validation::Field;

const RENAMED: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// Deprecation message of a label; `None` if it is not deprecated.
pub fn renamed(label: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(known, _)| *known == label).map(|(_, why)| *why)
}

/// Warns of a deprecated label as the key of an expression.
pub fn key(key: Field, out: &mut WarningList) {
    let why = renamed(key.str());
    out.extend(why.map(|why| format!("{}: {} is {why}", key.path(), key.str())));
}

/// Warns of deprecated labels in a node selector term, and of values that are not valid label values.
pub fn term(term: Field, values: bool, out: &mut WarningList) {
    for expression in term.at("matchExpressions").items() {
        key(expression.at("key"), out);
        for value in expression.at("values").items().filter(|_| values) {
            for problem in name::is_label_value(value.str()) {
                out.add_with(|| format!("{}: {} is invalid, {problem}", value.path(), value.str()));
            }
        }
    }
}

/// Warns of deprecated labels in a label selector of nodes.
pub fn label_selector(selector: Field, out: &mut WarningList) {
    for expression in selector.at("matchExpressions").items() {
        key(expression.at("key"), out);
    }
    let labels = selector.at("matchLabels");
    for label in labels.keys() {
        out.extend(renamed(label).map(|why| format!("{}: {why}", labels.at(label).path())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::cases::value;
    use crate::validation;

    #[test]
    fn selectors_of_nodes_by_old_labels_are_warned_of() {
        let selector = value(
            r#"{"nodeTopology": {
                "matchExpressions": [{"key": "a"}, {"key": "beta.kubernetes.io/os"}],
                "matchLabels": {"node-role.kubernetes.io/master": "", "b": ""}}}"#,
        );
        let mut warnings = WarningList::default();
        validation::errors(&selector, |object| {
            label_selector(object.at("nodeTopology"), &mut warnings);
        });
        let key = "nodeTopology.matchExpressions[1].key: beta.kubernetes.io/os is deprecated since \
                   v1.14; use \"kubernetes.io/os\" instead";
        let label = "nodeTopology.matchLabels.node-role.kubernetes.io/master: use \
                     \"node-role.kubernetes.io/control-plane\" instead";
        assert_eq!(warnings.into_said(), [key, label]);
    }
}
