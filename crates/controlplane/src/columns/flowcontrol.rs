//! Columns of `flowcontrol.apiserver.k8s.io`.

use kevel_api::value::Value;
use kevel_registry::columns::Column;

use super::cell::{FieldValue, NONE};
use super::{Columns, columns};

/// Columns of FlowSchemas, which are listed by matching precedence.
pub(crate) const FLOW_SCHEMA: Columns = Columns {
    rank: Some(|object| FieldValue(Some(object)).int("spec.matchingPrecedence")),
    ..columns!(
        |o| where {
            let method = o.at("spec.distinguisherMethod");
        }
        Column::NAME => o.name(),
        Column::text("PriorityLevel", "flowcontrol.v1.PriorityLevelConfigurationReference#name") =>
            o.text("spec.priorityLevelConfiguration.name"),
        Column::text("MatchingPrecedence", "flowcontrol.v1.FlowSchemaSpec#matchingPrecedence") =>
            o.int("spec.matchingPrecedence"),
        Column::text("DistinguisherMethod", "flowcontrol.v1.FlowSchemaSpec#distinguisherMethod") =>
            if method.is_set() { method.text("type") } else { NONE },
        Column::AGE => o.age(),
        Column::text("MissingPL", "Whether its priority level is missing.") =>
            o.condition("Dangling").map_or("?", |condition| condition.text("status")),
    )
};

pub(crate) const PRIORITY_LEVEL_CONFIGURATION: Columns = columns!(
    |o| where {
        let limited = o.at("spec.limited");
        let queuing = limited.at("limitResponse.queuing");
        let number = |of: FieldValue<'_>, field: &str| match of.is_set() {
            true => Value::Int(of.int(field)),
            false => NONE.into(),
        };
    }
    Column::NAME => o.name(),
    Column::text("Type", "flowcontrol.v1.PriorityLevelConfigurationSpec#type") =>
        o.text("spec.type"),
    Column::text(
        "NominalConcurrencyShares",
        "flowcontrol.v1.LimitedPriorityLevelConfiguration#nominalConcurrencyShares",
    ) => number(limited, "nominalConcurrencyShares"),
    Column::text("Queues", "flowcontrol.v1.QueuingConfiguration#queues") =>
        number(queuing, "queues"),
    Column::text("HandSize", "flowcontrol.v1.QueuingConfiguration#handSize") =>
        number(queuing, "handSize"),
    Column::text("QueueLengthLimit", "flowcontrol.v1.QueuingConfiguration#queueLengthLimit") =>
        number(queuing, "queueLengthLimit"),
    Column::AGE => o.age(),
);
