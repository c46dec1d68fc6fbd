//! Kinds StorageClass and VolumeAttributesClass: validation.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kevel_api::name;
use kevel_api::value::Value;
use kevel_api::warning::WarningList;

use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::node_labels;
use crate::rules::Rules;
use crate::validation::{Field, errors};

/// `storageclasses`
pub static STORAGE_CLASS: Kind = Kind {
    returns_deleted_object: true,
    columns: columns::storage::STORAGE_CLASS,
    rules: Rules {
        validate_create: storage_class,
        validate_update: |class, old| {
            storage_class(class);
            class.metadata_again();
            for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
                class.at(name).immutable(&old.at(name));
            }
        },
        warnings: |class, _| warnings(class),
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("storage.k8s.io", "storageclasses")
};

/// `volumeattributesclasses`
pub static VOLUME_ATTRIBUTES_CLASS: Kind = Kind {
    returns_deleted_object: true,
    columns: columns::storage::VOLUME_ATTRIBUTES_CLASS,
    rules: Rules {
        validate_create: volume_attributes_class,
        validate_update: |class, old| {
            for (name, why) in [
                ("driverName", "updates to driverName are forbidden."),
                ("parameters", "updates to parameters are forbidden."),
            ] {
                if !class.at(name).same(&old.at(name)) {
                    class.at(name).forbidden(why);
                }
            }
            class.metadata_again();
            volume_attributes_class(class);
        },
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("storage.k8s.io", "volumeattributesclasses")
};

/// Warnings about deprecated node labels in `allowedTopologies`.
fn warnings(class: &Value) -> Vec<String> {
    let mut out = WarningList::default();
    errors(class, |class| {
        for term in class.at("allowedTopologies").items() {
            for expression in term.at("matchLabelExpressions").items() {
                let key = expression.at("key");
                let why = node_labels::renamed(key.str());
                out.extend(why.map(|why| format!("{}: {why}", key.path())));
            }
        }
    });
    out.into_said()
}

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 << 10;

fn storage_class(class: Field) {
    provisioner(class.at("provisioner"));
    parameters(class.at("parameters"));
    let policy = class.at("reclaimPolicy");
    if !policy.is_empty() {
        policy.one_of(&["Delete", "Retain"]);
    }
    let mode = class.at("volumeBindingMode");
    if mode.is_absent() {
        mode.required("");
    } else {
        mode.one_of(&["Immediate", "WaitForFirstConsumer"]);
    }
    let topologies = class.at("allowedTopologies");
    let mut seen: HashMap<_, usize> = HashMap::new();
    for term in topologies.items() {
        topology(term);
        let wanted = expressions(term);
        // An empty term equals each entry of the reference's list that is not filled in yet.
        let nothing = if wanted.is_empty() { topologies.len() } else { 0 };
        let before = seen.entry(wanted).or_default();
        term.repeat(nothing + *before, || term.at("matchLabelExpressions").duplicate_as(""));
        *before += 1;
    }
}

fn volume_attributes_class(class: Field) {
    provisioner(class.at("driverName"));
    let found = class.at("parameters");
    parameters(found);
    found.must("must contain at least one key/value pair");
}

fn provisioner(provisioner: Field) {
    if provisioner.must("") {
        let lower = provisioner.str().to_lowercase();
        for problem in name::is_label_key(&lower) {
            provisioner.invalid_as(lower.as_str(), problem);
        }
    }
}

fn parameters(parameters: Field) {
    if parameters.len() > MAX_PARAMETERS {
        return parameters.too_long(MAX_PARAMETERS);
    }
    if parameters.keys().any(str::is_empty) {
        parameters.invalid_as("", "field can not be empty.");
    }
    let size: usize = parameters.entries().map(|(key, value)| key.len() + value.len()).sum();
    if size > MAX_PARAMETER_BYTES {
        parameters.too_long(MAX_PARAMETER_BYTES);
    }
}

/// Checks a topology term: node labels, each with its allowed values.
fn topology(term: Field) {
    let mut seen = HashSet::new();
    for expression in term.at("matchLabelExpressions").items() {
        let (key, values) = (expression.at("key"), expression.at("values"));
        let mut known = HashSet::new();
        if values.must("") {
            for value in values.items() {
                value.unique(&mut known, value.str());
            }
        }
        key.label_name();
        key.unique(&mut seen, key.str());
    }
}

/// Expressions of a term, independent of their order.
fn expressions<'v>(term: Field<'v, '_>) -> BTreeMap<&'v str, BTreeSet<&'v str>> {
    let expressions = term.at("matchLabelExpressions");
    let values = |of: Field<'v, '_>| (of.at("key").str(), of.at("values").strings().collect());
    expressions.items().map(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_are_compared_whatever_their_order() {
        let class = r#"{"provisioner": "a/b", "volumeBindingMode": "Immediate", "allowedTopologies": [
            {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]},
            {"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]}]}"#;
        let class: Value =
            kevel_codec::json::decode_any(class.as_bytes(), kevel_codec::json::Unknown::Ignore)
                .unwrap()
                .value;
        let errors: Vec<String> =
            errors(&class, storage_class).iter().map(ToString::to_string).collect();
        assert_eq!(errors, ["allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\""],);
    }
}
