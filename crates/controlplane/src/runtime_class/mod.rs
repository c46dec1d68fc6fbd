//! Kind RuntimeClass: validation.

use std::collections::HashSet;

use kevel_api::name;
use kevel_api::value::Value;

use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::node_labels;
use crate::pod::{Options, resources, toleration};
use crate::rules::Rules;
use crate::validation::Field;

/// `runtimeclasses`
pub static KIND: Kind = Kind {
    allow_create_on_update: true,
    allow_unconditional_update: false,
    columns: columns::node::RUNTIME_CLASS,
    rules: Rules {
        validate_create: check,
        validate_update: |class, old| {
            check(class);
            class.metadata_again();
            class.at("handler").immutable(&old.at("handler"));
        },
        warnings,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    standard_finalizers: false,
    ..Kind::new("node.k8s.io", "runtimeclasses")
};

fn check(class: Field) {
    let handler = class.at("handler");
    if handler.must("") {
        handler.object_name(name::name_is_dns_label);
    }
    let overhead = class.at("overhead");
    if overhead.is_set() {
        let fixed = overhead.at("podFixed");
        resources::overhead(overhead.with(fixed.get()), &Options::default());
    }
    let scheduling = class.at("scheduling");
    scheduling.at("nodeSelector").labels();
    let tolerations = scheduling.at("tolerations");
    toleration::check(tolerations, false);
    let mut seen = HashSet::new();
    for toleration in tolerations.items() {
        if !seen.insert(toleration::parts(toleration)) {
            toleration.duplicate();
        }
    }
}

fn warnings(class: &Value, _: Option<&Value>) -> Vec<String> {
    let selector = class.at(&["scheduling", "nodeSelector"]).and_then(Value::as_map);
    let labels = selector.into_iter().flat_map(|labels| labels.iter());
    let renamed = labels.filter_map(|(label, _)| node_labels::renamed(label));
    renamed.map(|why| format!("scheduling.nodeSelector: {why}")).collect()
}
