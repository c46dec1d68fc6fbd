//! Columns of `policy`.

use kevel_registry::columns::Column;

use super::cell::FieldValue;
use super::{Columns, columns};

pub(crate) const POD_DISRUPTION_BUDGET: Columns = columns!(
    |o| where {
        let bound = |part: FieldValue<'_>| part.written().unwrap_or_else(|| "N/A".into());
    }
    Column::NAME => o.name(),
    Column::text("Min Available", "How many pods must stay available.") =>
        bound(o.at("spec.minAvailable")),
    Column::text("Max Unavailable", "How many pods may be unavailable.") =>
        bound(o.at("spec.maxUnavailable")),
    Column::integer("Allowed Disruptions", "How many pods may be disrupted now.") =>
        o.int("status.disruptionsAllowed"),
    Column::AGE => o.age(),
);
