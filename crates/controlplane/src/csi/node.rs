//! Kind CSINode: the CSI drivers on a node and their volume limits.

use std::collections::{HashMap, HashSet};

use kevel_api::value::{Value, equivalent};
use kevel_features::Feature;

use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::pod::volume_source;
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE};

/// `csinodes`
pub static KIND: Kind = Kind {
    returns_deleted_object: true,
    allow_unconditional_update: false,
    columns: columns::storage::CSI_NODE,
    rules: Rules {
        validate_create: |node| drivers(node.down("spec.drivers")),
        validate_update,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::Meta,
    ..Kind::new("storage.k8s.io", "csinodes")
};

/// Maximum length of `nodeID`.
const MAX_NODE_ID: usize = 256;

fn drivers(drivers: Field) {
    let mut seen = HashSet::new();
    for driver in drivers.items() {
        let (name, id) = (driver.at("name"), driver.at("nodeID"));
        volume_source::csi_driver_name(name);
        id.must("");
        if id.len() > MAX_NODE_ID {
            id.invalid(format!("must be {MAX_NODE_ID} characters or less"));
        }
        driver.at("allocatable").at("count").non_negative();
        name.unique(&mut seen, name.str());
        topology_keys(driver);
    }
}

/// Checks topology keys. Errors are reported at the driver.
fn topology_keys(driver: Field) {
    let mut seen = HashSet::new();
    for key in driver.at("topologyKeys").items() {
        let key = driver.with(key.get());
        if key.is_empty() {
            key.required("");
        }
        key.unique(&mut seen, key.str());
        key.label_name();
    }
}

/// Checks an update: an existing driver may only change its `allocatable`, with its feature.
fn validate_update(node: Field, old: Field) {
    let list = node.down("spec.drivers");
    drivers(list);
    let fixed = match node.capabilities().features.has(Feature::MutableCSINodeAllocatableCount) {
        true => but_for_amount,
        false => |driver: Field| driver.get().cloned().unwrap_or(Value::Null),
    };
    let mut new: HashMap<&str, Vec<Value>> = HashMap::new();
    for driver in list.items() {
        new.entry(driver.at("name").str()).or_default().push(fixed(driver));
    }
    for was in old.down("spec.drivers").items() {
        let before = fixed(was);
        for driver in new.get(was.at("name").str()).into_iter().flatten() {
            if !equivalent(Some(driver), Some(&before)) {
                list.invalid_as(list.index(0).with(Some(driver)).bad_value(), IMMUTABLE);
            }
        }
    }
}

fn but_for_amount(driver: Field) -> Value {
    let mut driver = driver.get().cloned().unwrap_or(Value::Null);
    driver.as_map_mut().map(|driver| driver.remove("allocatable"));
    driver
}

#[cfg(test)]
mod tests {
    use kevel_features::FeatureSet;

    use super::*;
    use crate::capabilities::Capabilities;
    use crate::rules::cases::value;

    #[test]
    fn gate_decides_whether_volume_limits_change() {
        let node = |driver: &str| value(&format!(r#"{{"spec": {{"drivers": [{driver}]}}}}"#));
        let driver = |id: &str, count: i64| {
            node(&format!(
                r#"{{"name": "d", "nodeID": "{id}", "allocatable": {{"count": {count}}}}}"#
            ))
        };
        let old = driver("a", 1);
        for (new, gate, errors) in [
            (driver("a", 1), false, 0),
            (driver("a", 2), false, 1),
            (driver("a", 2), true, 0),
            (driver("b", 1), true, 1),
        ] {
            let features =
                FeatureSet::default().with(Feature::MutableCSINodeAllocatableCount, gate);
            let capabilities = Capabilities { features, ..Capabilities::default() };
            let told = capabilities.update_errors(&new, &old, validate_update).into_told();
            assert_eq!(told.len(), errors, "{new:?} {gate}: {told:?}");
        }
    }
}
