//! Events, of either group: they are stored as the older one.

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Shown, cells};

pub(super) const KINDS: &[Kind] = &[Kind {
    plural: "events",
    definitions: &[
        Column::text("Last Seen", "core.v1.Event#lastTimestamp"),
        Column::text("Type", "core.v1.Event#type"),
        Column::text("Reason", "core.v1.Event#reason"),
        Column::text("Object", "core.v1.Event#involvedObject"),
        Column::text("Subobject", "Which part of that it is about.").wide(),
        Column::text("Source", "core.v1.Event#source").wide(),
        Column::text("Message", "core.v1.Event#message"),
        Column::text("First Seen", "core.v1.Event#firstTimestamp").wide(),
        Column::text("Count", "core.v1.Event#count").wide(),
        Column::NAME.wide(),
    ],
    cells,
    ..Kind::PLAIN
}];

fn cells(o: &Shown<'_>) -> Vec<Value> {
    let first = o.since(if has_time(o, "firstTimestamp") { "firstTimestamp" } else { "eventTime" });
    let (last, count) = match (o.at("series").is_set(), o.int("count")) {
        (true, _) => (o.since("series.lastObservedTime"), o.int("series.count")),
        (false, count) => {
            let last = has_time(o, "lastTimestamp").then(|| o.since("lastTimestamp"));
            // Something that happened once has no count.
            (last.unwrap_or_else(|| first.clone()), if count == 0 { 1 } else { count })
        }
    };
    let kind = o.text("involvedObject.kind").to_lowercase();
    let object = match o.text("involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    cells![
        last,
        o.text("type"),
        o.text("reason"),
        object,
        o.text("involvedObject.fieldPath"),
        source(o),
        o.text("message").trim(),
        first,
        count,
        o.name(),
    ]
}

fn has_time(o: &Shown<'_>, path: &str) -> bool {
    kevel_server::columns::parse(o.text(path)).is_some()
}

fn source(o: &Shown<'_>) -> String {
    let component = o.text_or("source.component", o.text("reportingComponent"));
    match o.text_or("source.host", o.text("reportingInstance")) {
        "" => component.into(),
        instance => format!("{component}, {instance}"),
    }
}
