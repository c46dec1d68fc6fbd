//! Columns of `apiregistration.k8s.io`.

use kevel_registry::columns::Column;

use super::cell::Shown;
use super::{Columns, columns};

pub(crate) const API_SERVICE: Columns = columns!(
    |o| where {
        let service = o.at("spec.service");
        let service = match service.is_set() {
            true => format!("{}/{}", service.text("namespace"), service.text("name")),
            false => "Local".into(),
        };
    }
    Column::NAME => o.name(),
    Column::text("Service", "The service that answers for it.") => service,
    Column::text("Available", "Whether it can be reached.") => available(o),
    Column::AGE => o.age(),
);

fn available(o: &Shown<'_>) -> String {
    let Some(condition) = o.condition("Available") else { return "Unknown".into() };
    match (condition.text("status"), condition.text("reason")) {
        ("True", _) => "True".into(),
        (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})"),
    }
}
