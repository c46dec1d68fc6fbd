//! Status of a ResourceClaim: allocated devices and consumers.

use std::collections::HashSet;

use kevel_api::field_error::BadValue;
use kevel_api::ip::is_valid_interface_address;
use kevel_api::value::Value;
use kevel_features::{Feature, Gated, drop_gated};

use super::claim::names_of_requests;
use super::claim::{MAX_CONFIGS, MAX_PARAMETERS, RequestNames, configuration, document};
use super::names::{self, label};
use super::{each, each_once, unique, version};
use crate::capabilities::Capabilities;
use crate::pod::node_selector;
use crate::validation::{Field, record};

const MAX_RESERVED_FOR: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_BINDING_CONDITIONS: usize = 4;
const MAX_CONDITIONS: usize = 8;
const MAX_IPS: usize = 16;
const MAX_INTERFACE_NAME: usize = 256;
const MAX_HARDWARE_ADDRESS: usize = 128;

/// Gated fields of a claim's status.
const GATED: &[Gated] = &[
    Gated {
        in_use: &[
            "spec.devices.requests.*.exactly.adminAccess",
            "status.allocation.devices.results.*.adminAccess",
        ],
        ..Gated::new(
            &[Feature::DRAAdminAccess],
            &["status.allocation.devices.results.*.adminAccess"],
        )
    },
    Gated::new(&[Feature::DRAResourceClaimDeviceStatus], &["status.devices"]),
    Gated {
        gates: &[Feature::DRAConsumableCapacity],
        fields: &[
            "status.allocation.devices.results.*.shareID",
            "status.allocation.devices.results.*.consumedCapacity",
            "status.devices.*.shareID",
        ],
        in_use: &[
            "status.allocation.devices.results.*.shareID",
            "status.allocation.devices.results.*.consumedCapacity",
            "status.devices.*.shareID",
            "spec.devices.constraints.*.distinctAttribute",
            "spec.devices.requests.*.exactly.capacity",
            "spec.devices.requests.*.firstAvailable.*.capacity",
        ],
        emptied: 0,
    },
    Gated::new(
        &[Feature::DRADeviceBindingConditions],
        &[
            "status.allocation.devices.results.*.bindingConditions",
            "status.allocation.devices.results.*.bindingFailureConditions",
        ],
    ),
];

/// Drops gated fields, and the status of devices that are no longer allocated.
pub(super) fn prepare(claim: &mut Value, old: &Value, capabilities: &Capabilities) {
    drop_gated(claim, Some(&version::as_v1(old)), GATED, &capabilities.features);
    let status = &capabilities.features.has(Feature::DRAResourceClaimDeviceStatus);
    if !status && old.list_at(&["status", "devices"]).is_empty() {
        return;
    }
    let lost: HashSet<_> = {
        let kept: HashSet<_> = results(claim).iter().map(device_id).collect();
        results(old).iter().map(device_id).filter(|id| !kept.contains(id)).collect()
    };
    let lost: HashSet<[String; 4]> = lost.into_iter().map(|id| id.map(str::to_owned)).collect();
    let devices = claim.at_mut(&["status", "devices"]).and_then(Value::as_list_mut);
    if let Some(devices) = devices {
        devices.retain(|device| !lost.contains(&device_id(device).map(str::to_owned)));
    }
    if claim.at(&["status", "devices"]).is_some_and(Value::is_empty) {
        claim.make_map(&["status"]).remove("devices");
    }
}

fn results(claim: &Value) -> &[Value] {
    claim.list_at(&["status", "allocation", "devices", "results"])
}

/// Identity of a device or device share: driver, pool, name, share ID.
fn device_id(device: &Value) -> [&str; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| device.str_at(&[field]))
}

fn shown_id(id: &[&str; 4]) -> BadValue {
    let [driver, pool, device, share] = *id;
    record(&[("Driver", driver), ("Pool", pool), ("Device", device), ("ShareID", share)])
}

/// Checks a change of the status.
pub(super) fn check(claim: Field, old: Field) {
    let requests = RequestNames::of(claim.down("spec.devices"));
    let (status, was) = (claim.at("status"), old.at("status"));
    let (reserved, allocation) = (status.at("reservedFor"), status.at("allocation"));
    reserved_for(reserved);
    let results = allocation.down("devices.results");
    let allocated: HashSet<_> = results.list().iter().map(device_id).collect();
    let devices = status.at("devices");
    devices.items().for_each(|item| device(item, &allocated));
    unique(devices, |item| item.get().map_or([""; 4], device_id), shown_id);
    if !reserved.is_empty() {
        if allocation.is_absent() {
            reserved.forbidden("may not be specified when `allocated` is not set");
        } else if claim.down("metadata.deletionTimestamp").is_set()
            && !only_removed(reserved, was.at("reservedFor"))
        {
            reserved.forbidden(
                "new entries may not be added while `deallocationRequested` or \
                 `deletionTimestamp` are set",
            );
        }
    }
    let had = was.at("allocation");
    match (allocation.is_set(), had.is_set()) {
        (true, true) => allocation.immutable(&had),
        (true, false) => new_allocation(allocation, &requests),
        _ => {}
    }
}

/// Validates the consumers of a claim: each once.
fn reserved_for(users: Field) {
    let few = each(users, MAX_RESERVED_FOR, |user| {
        for field in ["resource", "name", "uid"] {
            user.at(field).must("");
        }
    });
    if few {
        unique(users, |user| user.at("uid").str(), |uid| BadValue::named_string(uid));
    }
}

fn only_removed(users: Field, old: Field) -> bool {
    const FIELDS: [&str; 4] = ["apiGroup", "resource", "name", "uid"];
    let known = |user: &Value| FIELDS.map(|field| user.str_at(&[field]).to_owned());
    let old: HashSet<_> = old.list().iter().map(known).collect();
    users.list().iter().all(|user| old.contains(&known(user)))
}

/// Validates a driver's status of a device of a claim.
fn device(device: Field, allocated: &HashSet<[&str; 4]>) {
    names::driver(device.at("driver"));
    names::pool(device.at("pool"));
    label(device.at("device"));
    names::share_id(device.at("shareID"));
    let id = device.get().map_or([""; 4], device_id);
    if !allocated.contains(&id) {
        device.invalid_as(shown_id(&id), "must be an allocated device in the claim");
    }
    let conditions = device.at("conditions");
    conditions.at_most(MAX_CONDITIONS);
    conditions.conditions();
    if device.at("data").is_set() {
        document(device.at("data"), MAX_PARAMETERS);
    }
    network(device.at("networkData"));
}

fn network(network: Field) {
    for (field, max) in
        [("interfaceName", MAX_INTERFACE_NAME), ("hardwareAddress", MAX_HARDWARE_ADDRESS)]
    {
        if network.at(field).len() > max {
            network.at(field).too_long(max);
        }
    }
    each_once(network.at("ips"), MAX_IPS, |ip| {
        ip.extend(is_valid_interface_address(&ip.path(), ip.str()));
    });
}

/// The devices that a claim has now.
fn new_allocation(allocation: Field, requests: &RequestNames) {
    let devices = allocation.at("devices");
    each(devices.at("results"), MAX_RESULTS, |result| {
        requests.check(result.at("request"));
        names::driver(result.at("driver"));
        names::pool(result.at("pool"));
        label(result.at("device"));
        binding_conditions(result);
        names::share_id(result.at("shareID"));
    });
    // Those of the class, and those of the claim.
    each(devices.at("config"), 2 * MAX_CONFIGS, |config| {
        config.at("source").must_one_of("", &["FromClaim", "FromClass"]);
        names_of_requests(config.at("requests"), requests);
        configuration(config);
    });
    let selector = allocation.at("nodeSelector");
    if selector.is_set() {
        node_selector(selector, false);
    }
}

/// The conditions that a device must have before its claim is bound, and those that it must not.
pub(super) fn binding_conditions(device: Field) {
    let (needed, failed) = (device.at("bindingConditions"), device.at("bindingFailureConditions"));
    for list in [needed, failed] {
        each(list, MAX_BINDING_CONDITIONS, |condition| condition.label_name());
    }
    unique(needed, |condition| condition.str(), |text| BadValue::from(*text));
    let all: HashSet<&str> = needed.strings().collect();
    let mut seen = HashSet::new();
    for condition in failed.items() {
        condition.unique(&mut seen, condition.str());
        if all.contains(condition.str()) {
            condition.invalid("bindingFailureConditions must not overlap with bindingConditions");
        }
    }
    for (list, other, why) in [
        (needed, failed, "bindingConditions are required to use bindingFailureConditions"),
        (failed, needed, "bindingFailureConditions are required to use bindingConditions"),
    ] {
        if list.is_empty() && !other.is_empty() {
            list.invalid(why);
        }
    }
}
