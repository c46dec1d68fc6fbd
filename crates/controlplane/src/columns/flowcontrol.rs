//! `flowcontrol.apiserver.k8s.io`

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{NONE, Part, Shown, cells};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "flowschemas",
        definitions: &[
            Column::NAME,
            Column::text(
                "PriorityLevel",
                "flowcontrol.v1.PriorityLevelConfigurationReference#name",
            ),
            Column::text("MatchingPrecedence", "flowcontrol.v1.FlowSchemaSpec#matchingPrecedence"),
            Column::text(
                "DistinguisherMethod",
                "flowcontrol.v1.FlowSchemaSpec#distinguisherMethod",
            ),
            Column::AGE,
            Column::text("MissingPL", "Whether its priority level is missing."),
        ],
        cells: flow_schemas,
        rank: Some(|object| Part(Some(object)).int("spec.matchingPrecedence")),
        ..Kind::PLAIN
    },
    Kind {
        plural: "prioritylevelconfigurations",
        definitions: &[
            Column::NAME,
            Column::text("Type", "flowcontrol.v1.PriorityLevelConfigurationSpec#type"),
            Column::text(
                "NominalConcurrencyShares",
                "flowcontrol.v1.LimitedPriorityLevelConfiguration#nominalConcurrencyShares",
            ),
            Column::text("Queues", "flowcontrol.v1.QueuingConfiguration#queues"),
            Column::text("HandSize", "flowcontrol.v1.QueuingConfiguration#handSize"),
            Column::text(
                "QueueLengthLimit",
                "flowcontrol.v1.QueuingConfiguration#queueLengthLimit",
            ),
            Column::AGE,
        ],
        cells: priority_levels,
        ..Kind::PLAIN
    },
];

/// Schemas are shown in the order in which they are tried.
fn flow_schemas(o: &Shown<'_>) -> Vec<Value> {
    let method = o.at("spec.distinguisherMethod");
    cells![
        o.name(),
        o.text("spec.priorityLevelConfiguration.name"),
        o.int("spec.matchingPrecedence"),
        if method.is_set() { method.text("type") } else { NONE },
        o.age(),
        o.condition("Dangling").map_or("?", |condition| condition.text("status")),
    ]
}

fn priority_levels(o: &Shown<'_>) -> Vec<Value> {
    let limited = o.at("spec.limited");
    let queuing = limited.at("limitResponse.queuing");
    let number = |of: Part<'_>, field: &str| match of.is_set() {
        true => Value::Int(of.int(field)),
        false => NONE.into(),
    };
    cells![
        o.name(),
        o.text("spec.type"),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        o.age(),
    ]
}
