//! Kind DeviceTaintRule: strategy and validation.

use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_registry::strategy::{RESET_ALL_BUT_STATUS, STATUS_METADATA};

use super::names::{self, label};
use super::{GROUP, taint};
use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::Field;

/// `devicetaintrules`
pub static DEVICE_TAINT_RULE: Kind = Kind {
    storage_version: Some("v1alpha3"),
    kept_by_status: &STATUS_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    status_has_rows: false,
    counts_generation: true,
    columns: columns::resource::DEVICE_TAINT_RULE,
    rules: Rules {
        validate_create: |rule| spec(rule.at("spec"), None),
        prepare_for_update,
        validate_update: |rule, old| spec(rule.at("spec"), Some(old.at("spec"))),
        validate_status_update: |rule, _| {
            let conditions = rule.down("status.conditions");
            conditions.conditions();
            conditions.at_most(MAX_CONDITIONS);
        },
        ..Rules::NONE
    },
    ..Kind::new(GROUP, "devicetaintrules")
};

const MAX_CONDITIONS: usize = 8;

/// Updates `timeAdded` of the taint if the effect changes and the client leaves the time unchanged.
fn prepare_for_update(rule: &mut Value, old: &Value, capabilities: &Capabilities) {
    const TAINT: &[&str] = &["spec", "taint"];
    let same = |field: &str| {
        let at = |rule: &Value| rule.at(TAINT).and_then(|taint| taint.at(&[field])).cloned();
        at(rule) == at(old)
    };
    if !same("effect") && same("timeAdded") {
        let now = Time::now(&capabilities.clock).to_string();
        rule.make_map(TAINT).insert("timeAdded", now.as_str().into());
    }
}

fn spec(spec: Field, old: Option<Field>) {
    let selector = spec.at("deviceSelector");
    for (field, check) in
        [("driver", names::driver as fn(Field)), ("pool", names::pool), ("device", label)]
    {
        if selector.at(field).is_set() {
            check(selector.at(field));
        }
    }
    taint::check(spec.at("taint"), old.as_ref().map(|old| old.at("taint")));
}
