//! Columns of `resource.k8s.io`.

use kevel_registry::columns::Column;

use super::cell::{NONE, Shown};
use super::{Columns, columns};

pub(crate) const DEVICE_TAINT_RULE: Columns = columns!(
    |o| where {
        let taint = o.at("spec.taint");
        let added = match taint.at("timeAdded").is_set() {
            true => o.since("spec.taint.timeAdded"),
            false => String::new(),
        };
        let [key, value, effect] = ["key", "value", "effect"].map(|field| taint.text(field));
    }
    Column::NAME => o.name(),
    Column::text("Key", "The taint's key.") => key,
    Column::text("Value", "The taint's value.") => value,
    Column::text("Effect", "What the taint does to claims and pods.") => effect,
    Column::text("TimeAdded", "How long ago the taint was added.") => added,
    Column::AGE => o.age(),
);

pub(crate) const RESOURCE_CLAIM: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("State", "How the claim stands.") => claim_state(o),
    Column::AGE => o.age(),
);

pub(crate) const RESOURCE_POOL_STATUS_REQUEST: Columns = columns!(
    |o| where {
        let decided = o.each("status.conditions").find(|condition| {
            matches!(condition.text("type"), "Complete" | "Failed")
                && condition.text("status") == "True"
        });
        let status = decided.map_or("Pending", |condition| condition.text("type"));
        let (all, told) = (o.int("status.poolCount"), o.count("status.pools"));
        let sum = |field: &str| match o.at("status").is_set() && status != "Failed" {
            true => o.each("status.pools").map(|pool| pool.int(field)).sum::<i64>().to_string(),
            false => "-".into(),
        };
        let errors = match sum("") {
            none if none == "-" => none,
            _ => {
                let wrong = o.each("status.pools").filter(|p| p.at("validationError").is_set());
                wrong.count().to_string()
            }
        };
        let completed = decided.filter(|_| status == "Complete");
    }
    Column::NAME => o.name(),
    Column::text("Driver", "Whose pools are asked about.") => o.text("spec.driver"),
    Column::text("Total", "How many devices there are.") => sum("totalDevices"),
    Column::text("Available", "How many of them are free.") => sum("availableDevices"),
    Column::text("Allocated", "How many of them are in use.") => sum("allocatedDevices"),
    Column::text("Unavailable", "How many of them cannot be used.") => sum("unavailableDevices"),
    Column::text("Errors", "How many pools are not valid.") => errors,
    Column::integer("Pools", "How many pools there are.") => all,
    Column::text("Status", "How the request stands.") => match status {
        // The list of pools may have been truncated.
        "Complete" if all > told => format!("Complete ({told}/{all} pools)"),
        status => status.to_owned(),
    },
    Column::text("Completed", "How long ago it was answered.") =>
        completed.map_or(NONE.into(), |condition| o.ago(condition.at("lastTransitionTime"))),
);

pub(crate) const RESOURCE_SLICE: Columns = columns!(
    |o| where {
        let pool = o.text("spec.pool.name");
    }
    Column::NAME => o.name(),
    Column::text("Node", "resource.v1.ResourceSliceSpec#nodeName") => o.text("spec.nodeName"),
    Column::text("Driver", "resource.v1.ResourceSliceSpec#driver") => o.text("spec.driver"),
    Column::text("Pool", "resource.v1.ResourcePool#name") => pool,
    Column::AGE => o.age(),
);

fn claim_state(o: &Shown<'_>) -> String {
    let allocated = o.at("status.allocation").is_set();
    let states = [
        ("deleted", o.is_deleted()),
        ("pending", !allocated && !o.is_deleted()),
        ("allocated", allocated),
        ("reserved", allocated && o.count("status.reservedFor") > 0),
    ];
    let states = states.iter().filter(|(_, holds)| *holds).map(|(state, _)| *state);
    states.collect::<Vec<_>>().join(",")
}
