//! Classes of storage, and classes of attributes of volumes.

use std::collections::HashSet;

use kevel_api::name;

use crate::columns;
use crate::kind::{Kind, MetadataChecks, deprecated_since};
use crate::rules::Rules;
use crate::validation::Field;

/// Storage classes.
pub static STORAGE_CLASS: Kind = Kind {
    returns_deleted_object: true,
    columns: columns::storage::STORAGE_CLASS,
    rules: Rules {
        validate_create: storage_class,
        validate_update: |class, old| {
            storage_class(class);
            for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
                class.at(name).immutable(&old.at(name));
            }
        },
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("storage.k8s.io", "storageclasses")
};

/// Volume attributes classes.
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
            volume_attributes_class(class);
        },
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    deprecated_versions: &[(
        "v1beta1",
        concat!(
            deprecated_since!("storage.k8s.io/v1beta1", "VolumeAttributesClass", 34, 37),
            "; use storage.k8s.io/v1 VolumeAttributesClass"
        ),
    )],
    ..Kind::new("storage.k8s.io", "volumeattributesclasses")
};

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
    let mut seen = HashSet::new();
    for term in topologies.items() {
        topology(term);
        if !seen.insert(sorted_expressions(&term)) {
            term.at("matchLabelExpressions").duplicate_as("");
        }
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

/// A place where volumes may be: labels of nodes, each with the values that it may have.
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

/// What a term asks for, whatever its order.
fn sorted_expressions<'v>(term: &Field<'v, '_>) -> Vec<(&'v str, Vec<&'v str>)> {
    let mut all = Vec::new();
    for expression in term.at("matchLabelExpressions").items() {
        let mut values: Vec<&str> = expression.at("values").strings().collect();
        values.sort_unstable();
        all.push((expression.at("key").str(), values));
    }
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::errors;
    use kevel_api::value::Value;

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
