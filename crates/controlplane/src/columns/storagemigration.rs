//! Columns of `storagemigration.k8s.io`.

use kevel_registry::columns::Column;

use super::cell::FieldValue;
use super::{Columns, columns};

pub(crate) const STORAGE_VERSION_MIGRATION: Columns = columns!(
    |o| where {
        let holding = o.each("status.conditions").filter(|c| c.text("status") == "True");
        let known = |ty: &&str| matches!(*ty, "Running" | "Failed" | "Succeeded");
        let status = holding.map(|condition| condition.text("type")).rfind(known);
    }
    Column::text("Name", "What the migration is called.") => o.name(),
    Column::text("Resource", "What is migrated.") => resource(o.at("spec.resource")),
    Column::text("Status", "How the migration stands.") => status.unwrap_or("Unknown"),
);

/// Name of a resource: `pods`, `deployments.apps`.
pub(super) fn resource(part: FieldValue<'_>) -> String {
    match (part.text("resource"), part.text("group")) {
        (resource, "") => resource.into(),
        (resource, group) => format!("{resource}.{group}"),
    }
}
