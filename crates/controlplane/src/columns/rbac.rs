//! Columns of `rbac.authorization.k8s.io`. Roles have no columns of their own.

use kevel_registry::columns::Column;

use super::{Columns, columns};

pub(crate) const BINDINGS: Columns = columns!(
    |o| where {
        let of_kind = |kind: &str| {
            let subjects = o.each("subjects").filter(|subject| subject.text("kind") == kind);
            let names = subjects.map(|subject| match kind {
                "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
                _ => subject.text("name").to_owned(),
            });
            names.collect::<Vec<_>>().join(", ")
        };
    }
    Column::NAME => o.name(),
    Column::text("Role", "The role that is given.") =>
        format!("{}/{}", o.text("roleRef.kind"), o.text("roleRef.name")),
    Column::AGE => o.age(),
    Column::text("Users", "The users that it is given to.").wide() => of_kind("User"),
    Column::text("Groups", "The groups that it is given to.").wide() => of_kind("Group"),
    Column::text("ServiceAccounts", "The service accounts that it is given to.").wide() =>
        of_kind("ServiceAccount"),
);
