//! `apiregistration.k8s.io`

use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Shown, cells};

pub(super) const KINDS: &[Kind] = &[Kind {
    plural: "apiservices",
    definitions: &[
        Column::NAME,
        Column::text("Service", "The service that answers for it."),
        Column::text("Available", "Whether it can be reached."),
        Column::AGE,
    ],
    cells: |o| {
        let service = o.at("spec.service");
        let service = match service.is_set() {
            true => format!("{}/{}", service.text("namespace"), service.text("name")),
            false => "Local".into(),
        };
        cells![o.name(), service, available(o), o.age()]
    },
    ..Kind::PLAIN
}];

fn available(o: &Shown<'_>) -> String {
    let Some(condition) = o.condition("Available") else { return "Unknown".into() };
    match (condition.text("status"), condition.text("reason")) {
        ("True", _) => "True".into(),
        (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})"),
    }
}
