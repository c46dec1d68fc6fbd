//! Kind StorageVersionMigration: validation.

use kevel_api::name;
use kevel_registry::strategy::{RESET_ALL_BUT_STATUS, STATUS_METADATA};

use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE};

/// `storageversionmigrations`
pub static KIND: Kind = Kind {
    kept_by_status: &STATUS_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    allow_unconditional_update: false,
    columns: columns::storagemigration::STORAGE_VERSION_MIGRATION,
    rules: Rules {
        validate_create: |migration| spec(migration.at("spec")),
        validate_update: |migration, old| {
            spec(migration.at("spec"));
            migration.at("spec").immutable(&old.at("spec"));
        },
        validate_status_update: |migration, old| status(migration.at("status"), old.at("status")),
        ..Rules::NONE
    },
    ..Kind::new("storagemigration.k8s.io", "storageversionmigrations")
};

/// Terminal conditions, with the message about taking them back.
const ENDS: [(&str, &str); 2] = [
    ("Succeeded", "Success condition cannot be set to false once it is true"),
    ("Failed", "Failed condition cannot be set to false once it is true"),
];

fn spec(spec: Field) {
    let resource = spec.at("resource");
    let (group, resource) = (resource.at("group"), resource.at("resource"));
    if resource.must("resource is required to be set") {
        joined(resource, name::is_dns1035_label);
    }
    if !group.is_empty() {
        joined(group, name::is_dns1123_subdomain);
    }
}

fn joined(field: Field, problems: fn(&str) -> name::Problems) {
    let problems = problems(field.str());
    if !problems.is_empty() {
        field.invalid(problems.join(","));
    }
}

fn status(status: Field, old: Field) {
    let (version, conditions) = (status.at("resourceVersion"), status.at("conditions"));
    let (text, before) = (version.str(), old.at("resourceVersion"));
    let good = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if !good {
        version.invalid(format!("resource version is not well formed: {text}"));
    }
    conditions.conditions();
    if !before.is_empty() && before.str() != text {
        version.invalid(IMMUTABLE);
    }
    if ENDS.iter().all(|(end, _)| is_true(status, end)) {
        let why = "Both success and failed conditions cannot be true at the same time";
        conditions.invalid(why);
    }
    for (end, why) in ENDS {
        if is_true(old, end) && !is_true(status, end) {
            conditions.invalid(why);
        }
    }
}

/// True if the status of the first condition of a type is True.
fn is_true(status: Field, ty: &str) -> bool {
    let conditions = status.at("conditions").list();
    let found = conditions.iter().find(|condition| condition.str_at(&["type"]) == ty);
    found.is_some_and(|condition| condition.str_at(&["status"]) == "True")
}
