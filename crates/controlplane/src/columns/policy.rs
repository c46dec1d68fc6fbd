//! `policy`

use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Part, cells};

pub(super) const KINDS: &[Kind] = &[Kind {
    plural: "poddisruptionbudgets",
    definitions: &[
        Column::NAME,
        Column::text("Min Available", "How many pods must stay available."),
        Column::text("Max Unavailable", "How many pods may be unavailable."),
        Column::integer("Allowed Disruptions", "How many pods may be disrupted now."),
        Column::AGE,
    ],
    cells: |o| {
        let bound = |part: Part<'_>| part.written().unwrap_or_else(|| "N/A".into());
        cells![
            o.name(),
            bound(o.at("spec.minAvailable")),
            bound(o.at("spec.maxUnavailable")),
            o.int("status.disruptionsAllowed"),
            o.age(),
        ]
    },
    ..Kind::PLAIN
}];
