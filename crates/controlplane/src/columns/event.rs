//! Columns of Events of both groups, which are stored in the core form.

use kevel_registry::columns::Column;

use super::cell::Shown;
use super::{Columns, columns};

pub(crate) const EVENT: Columns = columns!(
    |o| where {
        let timed = has_time(o, "firstTimestamp");
        let first = o.since(if timed { "firstTimestamp" } else { "eventTime" });
        let (last, count) = match (o.at("series").is_set(), o.int("count")) {
            (true, _) => (o.since("series.lastObservedTime"), o.int("series.count")),
            (false, count) => {
                let last = has_time(o, "lastTimestamp").then(|| o.since("lastTimestamp"));
                // An event that happened once has no count.
                (last.unwrap_or_else(|| first.clone()), if count == 0 { 1 } else { count })
            }
        };
        let kind = o.text("involvedObject.kind").to_lowercase();
        let object = match o.text("involvedObject.name") {
            "" => kind,
            name => format!("{kind}/{name}"),
        };
    }
    Column::text("Last Seen", "core.v1.Event#lastTimestamp") => last,
    Column::text("Type", "core.v1.Event#type") => o.text("type"),
    Column::text("Reason", "core.v1.Event#reason") => o.text("reason"),
    Column::text("Object", "core.v1.Event#involvedObject") => object,
    Column::text("Subobject", "core.v1.ObjectReference#fieldPath").wide() =>
        o.text("involvedObject.fieldPath"),
    Column::text("Source", "core.v1.Event#source").wide() => source(o),
    Column::text("Message", "core.v1.Event#message") => o.text("message").trim(),
    Column::text("First Seen", "core.v1.Event#firstTimestamp").wide() => first,
    Column::text("Count", "core.v1.Event#count").wide() => count,
    Column::NAME.wide() => o.name(),
);

fn has_time(o: &Shown<'_>, path: &str) -> bool {
    kevel_registry::columns::parse(o.text(path)).is_some()
}

fn source(o: &Shown<'_>) -> String {
    let component = o.text_or("source.component", o.text("reportingComponent"));
    match o.text_or("source.host", o.text("reportingInstance")) {
        "" => component.into(),
        instance => format!("{component}, {instance}"),
    }
}
