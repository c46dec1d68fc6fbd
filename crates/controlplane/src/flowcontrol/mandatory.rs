//! Validation of the mandatory FlowSchemas and PriorityLevelConfigurations, whose specs are fixed.

use kevel_api::value::Value;
use kevel_flowcontrol::EXEMPT;
use kevel_flowcontrol::bootstrap::{mandatory_flow_schemas, mandatory_priority_levels};

use crate::validation::Field;

/// Checks that a mandatory FlowSchema has its fixed spec.
pub(super) fn flow_schema(spec: Field, name: &str) {
    fixed(spec, name, mandatory_flow_schemas());
}

/// Checks that a mandatory priority level has its fixed spec. The level `exempt` may change its `spec.exempt`.
pub(super) fn priority_level(spec: Field, name: &str) {
    if name != EXEMPT {
        return fixed(spec, name, mandatory_priority_levels());
    }
    let exempt = spec.at("type").str() == "Exempt" && spec.at("limited").is_absent();
    if !exempt {
        spec.invalid(format!(
            "spec of '{EXEMPT}' except the 'spec.exempt' field must equal the fixed value"
        ));
    }
}

fn fixed(spec: Field, name: &str, mut all: impl Iterator<Item = Value>) {
    let fixed = all.find(|fixed| fixed.str_at(&["metadata", "name"]) == name);
    let fixed = fixed.as_ref().and_then(|fixed| fixed.at(&["spec"]));
    if fixed.is_some_and(|fixed| !spec.same(&spec.with(Some(fixed)))) {
        spec.invalid(format!("spec of '{name}' must equal the fixed value"));
    }
}
