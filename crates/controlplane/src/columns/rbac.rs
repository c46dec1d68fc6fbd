//! `rbac.authorization.k8s.io`. Roles have no columns of their own.

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Shown, cells};

const BINDINGS: Kind = Kind {
    definitions: &[
        Column::NAME,
        Column::text("Role", "The role that is given."),
        Column::AGE,
        Column::text("Users", "The users that it is given to.").wide(),
        Column::text("Groups", "The groups that it is given to.").wide(),
        Column::text("ServiceAccounts", "The service accounts that it is given to.").wide(),
    ],
    cells: bindings,
    ..Kind::PLAIN
};

pub(super) const KINDS: &[Kind] = &[
    Kind { plural: "clusterrolebindings", ..BINDINGS },
    Kind { plural: "rolebindings", ..BINDINGS },
];

fn bindings(o: &Shown<'_>) -> Vec<Value> {
    let of_kind = |kind: &str| {
        let subjects = o.each("subjects").filter(|subject| subject.text("kind") == kind);
        let names = subjects.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
            _ => subject.text("name").to_owned(),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    cells![
        o.name(),
        format!("{}/{}", o.text("roleRef.kind"), o.text("roleRef.name")),
        o.age(),
        of_kind("User"),
        of_kind("Group"),
        of_kind("ServiceAccount"),
    ]
}
