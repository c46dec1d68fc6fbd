//! `storagemigration.k8s.io`

use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Part, cells};

pub(super) const KINDS: &[Kind] = &[Kind {
    plural: "storageversionmigrations",
    definitions: &[
        Column::text("Name", "What the migration is called."),
        Column::text("Resource", "What is migrated."),
        Column::text("Status", "How the migration stands."),
    ],
    cells: |o| {
        let holding = o.each("status.conditions").filter(|c| c.text("status") == "True");
        let known = |ty: &&str| matches!(*ty, "Running" | "Failed" | "Succeeded");
        let status = holding.map(|condition| condition.text("type")).rfind(known);
        cells![o.name(), resource(o.at("spec.resource")), status.unwrap_or("Unknown")]
    },
    ..Kind::PLAIN
}];

/// `pods`, `deployments.apps`
pub(super) fn resource(part: Part<'_>) -> String {
    match (part.text("resource"), part.text("group")) {
        (resource, "") => resource.into(),
        (resource, group) => format!("{resource}.{group}"),
    }
}
