//! Devices of a driver, a slice of a pool at a time.

use kevel_api::quote::quote;
use kevel_api::value::{Value, equivalent};
use kevel_features::{Feature, Gated, drop_gated};
use kevel_registry::metadata::count_generation;

use super::names::{self, label};
use super::{GROUP, device, each_named, one_of, version};
use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::{FieldLabels, Kind, Selectable};
use crate::pod::node_selector;
use crate::rules::Rules;
use crate::validation::{Field, NOT_POSITIVE};

/// `resourceslices`
pub static RESOURCE_SLICE: Kind = Kind {
    selectable_fields: &[Selectable::field("spec.nodeName"), Selectable::field("spec.driver")],
    unknown_field_labels: FieldLabels::OwnNamed,
    returns_deleted_object: true,
    counts_generation: true,
    columns: columns::resource::RESOURCE_SLICE,
    rules: Rules {
        prepare_for_create: |slice, capabilities| prepare(slice, None, capabilities),
        validate_create: |slice| version::check(slice, |slice| spec(slice.at("spec"), None)),
        prepare_for_update,
        validate_update: |slice, old| {
            version::check_update(slice, old, |slice, old| {
                spec(slice.at("spec"), Some(old.at("spec")));
            });
        },
        warnings: |slice, _| warnings(slice),
        ..Rules::NONE
    },
    ..Kind::new(GROUP, "resourceslices")
};

const MAX_DEVICES: usize = 128;
/// Most devices of a slice whose devices have taints, counters or list attributes: these are larger.
const MAX_LARGE_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
/// Most counters of a set, or counters of a set that a device consumes.
pub(super) const MAX_COUNTERS: usize = 32;

/// Gated fields of a slice.
const GATED: &[Gated] = &[
    Gated::new(&[Feature::DRADeviceTaints], &["spec.devices.*.taints"]),
    Gated::new(
        &[Feature::DRAPartitionableDevices],
        &[
            "spec.sharedCounters",
            "spec.perDeviceNodeSelection",
            "spec.devices.*.consumesCounters",
            "spec.devices.*.nodeName",
            "spec.devices.*.nodeSelector",
            "spec.devices.*.allNodes",
        ],
    ),
    Gated::new(
        &[Feature::DRADeviceBindingConditions, Feature::DRAResourceClaimDeviceStatus],
        &[
            "spec.devices.*.bindingConditions",
            "spec.devices.*.bindingFailureConditions",
            "spec.devices.*.bindsToNode",
        ],
    ),
    Gated::new(
        &[Feature::DRAConsumableCapacity],
        &["spec.devices.*.allowMultipleAllocations", "spec.devices.*.capacity.*.requestPolicy"],
    ),
    Gated::new(
        &[Feature::DRANodeAllocatableResources],
        &["spec.devices.*.nodeAllocatableResourceMappings"],
    ),
    Gated::new(
        &[Feature::DRAListTypeAttributes],
        &[
            "spec.devices.*.attributes.*.bools",
            "spec.devices.*.attributes.*.ints",
            "spec.devices.*.attributes.*.strings",
            "spec.devices.*.attributes.*.versions",
        ],
    ),
];

/// A change counts though nothing may be left of it when the fields of closed gates are gone.
fn prepare_for_update(slice: &mut Value, old: &Value, capabilities: &Capabilities) {
    if !equivalent(slice.at(&["spec"]), old.at(&["spec"])) {
        count_generation(slice, old);
    }
    prepare(slice, Some(old), capabilities);
}

fn prepare(slice: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    let old = old.map(version::as_v1);
    version::change(slice, |slice| {
        drop_gated(slice, old.as_deref(), GATED, &capabilities.features)
    });
}

fn warnings(slice: &Value) -> Vec<String> {
    let driver = slice.str_at(&["spec", "driver"]);
    let warning = || {
        let driver = quote(driver);
        format!(
            "spec.driver: driver names should be lowercase; {driver} contains uppercase characters"
        )
    };
    (driver != driver.to_lowercase()).then(warning).into_iter().collect()
}

fn spec(spec: Field, old: Option<Field>) {
    let (driver, pool) = (spec.at("driver"), spec.at("pool"));
    names::driver(driver);
    check_pool(pool);
    if let Some(old) = old {
        pool.at("name").immutable(&old.down("pool.name"));
        driver.immutable(&old.at("driver"));
        spec.at("nodeName").immutable(&old.at("nodeName"));
    }
    where_devices_are(spec);
    let (devices, counters) = (spec.at("devices"), spec.at("sharedCounters"));
    if devices.is_set() && counters.is_set() {
        spec.invalid_as("", "only one of `sharedCounters` or `devices` is allowed");
    }
    let max = match devices.items().any(device::is_large) {
        true => MAX_LARGE_DEVICES,
        false => MAX_DEVICES,
    };
    let per_device = spec.at("perDeviceNodeSelection").bool();
    each_named(devices, max, "name", |new| {
        let was = old.as_ref().map(|old| old.at("devices"));
        let mut was = was.iter().flat_map(|was| was.items());
        let was = was.find(|was| was.at("name").str() == new.at("name").str());
        device::check(new, was, per_device);
    });
    each_named(counters, MAX_COUNTER_SETS, "name", |set| {
        set.at("name").must_form("", kevel_api::name::is_dns1123_label);
        check_counters(set.at("counters"));
    });
}

fn check_pool(pool: Field) {
    names::pool(pool.at("name"));
    let (slices, generation) = (pool.at("resourceSliceCount"), pool.at("generation"));
    if slices.int() <= 0 {
        slices.invalid_as(slices.int(), NOT_POSITIVE);
    }
    if generation.int() < 0 {
        generation.invalid("must be greater than or equal to zero");
    }
}

/// Location of the devices: one node, selected nodes, all nodes, or one per device.
fn where_devices_are(spec: Field) {
    const NONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
         `perDeviceNodeSelection` is required";
    const SEVERAL: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
         `perDeviceNodeSelection` is required, but multiple fields are set";
    let mut set = Vec::new();
    if names::node(spec.at("nodeName"), "must be either unset or set to a non-empty string") {
        set.push("`nodeName`");
    }
    let selector = spec.at("nodeSelector");
    if selector.is_set() {
        set.push("`nodeSelector`");
        node_selector(selector, false);
        let terms = selector.at("nodeSelectorTerms");
        if terms.len() != 1 {
            terms.invalid("must have exactly one node selector term");
        }
    }
    for (field, name) in
        [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        if only_true(spec.at(field)) {
            set.push(name);
        }
    }
    one_of(spec, &set, NONE, SEVERAL);
}

/// Requires that a boolean is true or absent; returns whether it is true.
pub(super) fn only_true(field: Field) -> bool {
    if field.is_set() && !field.bool() {
        field.invalid("must be either unset or set to true");
    }
    field.bool()
}

/// Amounts by the names of counters.
pub(super) fn check_counters(counters: Field) {
    if counters.must("") && counters.at_most(MAX_COUNTERS) {
        for name in counters.keys() {
            label(counters.with(Some(&name.into())));
        }
    }
}
