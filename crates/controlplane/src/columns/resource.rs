//! `resource.k8s.io`

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{NONE, Shown, cells};

pub(super) const KINDS: &[Kind] = &[
    Kind { plural: "deviceclasses", ..Kind::PLAIN },
    Kind {
        plural: "devicetaintrules",
        definitions: &[
            Column::NAME,
            Column::text("Key", "The taint's key."),
            Column::text("Value", "The taint's value."),
            Column::text("Effect", "What the taint does to claims and pods."),
            Column::text("TimeAdded", "How long ago the taint was added."),
            Column::AGE,
        ],
        cells: taint_rules,
        ..Kind::PLAIN
    },
    Kind {
        plural: "resourceclaims",
        definitions: &[Column::NAME, Column::text("State", "How the claim stands."), Column::AGE],
        cells: |o| cells![o.name(), claim_state(o), o.age()],
        ..Kind::PLAIN
    },
    Kind { plural: "resourceclaimtemplates", ..Kind::PLAIN },
    Kind {
        plural: "resourcepoolstatusrequests",
        definitions: &[
            Column::NAME,
            Column::text("Driver", "Whose pools are asked about."),
            Column::text("Total", "How many devices there are."),
            Column::text("Available", "How many of them are free."),
            Column::text("Allocated", "How many of them are in use."),
            Column::text("Unavailable", "How many of them cannot be used."),
            Column::text("Errors", "How many pools are not valid."),
            Column::integer("Pools", "How many pools there are."),
            Column::text("Status", "How the request stands."),
            Column::text("Completed", "How long ago it was answered."),
        ],
        cells: pool_status_requests,
        ..Kind::PLAIN
    },
    Kind {
        plural: "resourceslices",
        definitions: &[
            Column::NAME,
            Column::text("Node", "The node that has the devices."),
            Column::text("Driver", "Who manages the devices."),
            Column::text("Pool", "The pool that the devices belong to."),
            Column::AGE,
        ],
        cells: |o| {
            let pool = o.text("spec.pool.name");
            cells![o.name(), o.text("spec.nodeName"), o.text("spec.driver"), pool, o.age()]
        },
        ..Kind::PLAIN
    },
];

fn taint_rules(o: &Shown<'_>) -> Vec<Value> {
    let taint = o.at("spec.taint");
    let added = match taint.at("timeAdded").is_set() {
        true => o.since("spec.taint.timeAdded"),
        false => String::new(),
    };
    let [key, value, effect] = ["key", "value", "effect"].map(|field| taint.text(field));
    cells![o.name(), key, value, effect, added, o.age()]
}

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

fn pool_status_requests(o: &Shown<'_>) -> Vec<Value> {
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
    cells![
        o.name(),
        o.text("spec.driver"),
        sum("totalDevices"),
        sum("availableDevices"),
        sum("allocatedDevices"),
        sum("unavailableDevices"),
        errors,
        all,
        match status {
            // The answer may have been cut.
            "Complete" if all > told => format!("Complete ({told}/{all} pools)"),
            status => status.to_owned(),
        },
        completed.map_or(NONE.into(), |condition| o.ago(condition.at("lastTransitionTime"))),
    ]
}
