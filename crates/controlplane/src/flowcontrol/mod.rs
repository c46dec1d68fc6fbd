//! flowcontrol.apiserver.k8s.io: FlowSchema and PriorityLevelConfiguration, with their controllers.

mod config_consumer;
pub mod config_producer;
pub mod flow_schema;
mod mandatory;
pub mod priority_level_configuration;

use std::collections::HashSet;

pub use config_consumer::config_consumer;

use crate::validation::Field;

/// Checks the conditions of a status: each has a type, and no type occurs twice.
fn validate_status_update(object: Field, _: Field) {
    let mut seen = HashSet::new();
    for condition in object.down("status.conditions").items() {
        let ty = condition.at("type");
        if !seen.insert(ty.str()) {
            ty.duplicate_as(ty.bad_value_as_json());
        }
        ty.must("");
    }
}
