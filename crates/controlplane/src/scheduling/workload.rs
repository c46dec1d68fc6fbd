//! Kind Workload: templates for groups of pods.

use kevel_api::name;
use kevel_api::value::Value;

use super::{changed, group, unique};
use crate::capabilities::Capabilities;
use crate::columns::Columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::Field;

/// `workloads`
pub static KIND: Kind = Kind {
    storage_version: Some("v1alpha2"),
    columns: Columns::NAME_AND_AGE,
    rules: Rules {
        prepare_for_create: |workload, capabilities| prepare(workload, None, capabilities),
        validate_create: |workload| spec(workload.at("spec")),
        prepare_for_update: |workload, old, capabilities| {
            prepare(workload, Some(old), capabilities);
        },
        validate_update: |workload, old| update(workload.at("spec"), old.at("spec")),
        ..Rules::NONE
    },
    ..Kind::new("scheduling.k8s.io", "workloads")
};

const MAX_TEMPLATES: usize = 8;
const TEMPLATES: &str = "podGroupTemplates";

fn prepare(workload: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    let before = old.map_or(&[][..], |old| old.list_at(&["spec", TEMPLATES]));
    let templates = workload.at_mut(&["spec", TEMPLATES]).and_then(Value::as_list_mut);
    for (index, template) in templates.into_iter().flatten().enumerate() {
        group::drop_gated(template, before.get(index), capabilities);
    }
}

fn spec(spec: Field) {
    let controller = spec.at("controllerRef");
    if controller.is_set() {
        let api_group = controller.at("apiGroup");
        if !api_group.is_empty() {
            api_group.form(name::is_long_name);
        }
        for field in [controller.at("kind"), controller.at("name")] {
            if field.must("") {
                field.object_name(name::is_path_segment_name);
            }
        }
    }
    let templates = spec.at(TEMPLATES);
    if count(templates) {
        unique(templates, "name");
        for template in templates.items() {
            template.at("name").must_form("", name::is_short_name);
            group::policy(template.at("schedulingPolicy"));
            group::gated(template);
        }
    }
}

fn count(templates: Field) -> bool {
    templates.at_most(MAX_TEMPLATES) && templates.must("")
}

fn update(spec: Field, old: Field) {
    let (controller, templates) = (spec.at("controllerRef"), spec.at(TEMPLATES));
    if !controller.same(&old.at("controllerRef")) {
        changed(controller);
    }
    if !templates.same(&old.at(TEMPLATES)) {
        changed(templates);
        count(templates);
    }
}
