//! Kind Event in the core group and in `events.k8s.io`: the same stored objects with different field names.

use kevel_api::name;
use kevel_registry::strategy::Dependents;

use crate::columns;
use crate::kind::{Kind, MetadataChecks, Selectable};
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE};

/// `events` of the core group, and the stored form even if only `events.k8s.io` is served.
pub static CORE: Kind = Kind {
    validate_name: name::is_path_segment_name,
    selectable_fields: &[
        Selectable::field("involvedObject.kind"),
        Selectable::field("involvedObject.namespace"),
        Selectable::field("involvedObject.name"),
        Selectable::field("involvedObject.uid"),
        Selectable::field("involvedObject.apiVersion"),
        Selectable::field("involvedObject.resourceVersion"),
        Selectable::field("involvedObject.fieldPath"),
        Selectable::field("reason"),
        Selectable::field("reportingComponent"),
        Selectable::named("source", "source.component").otherwise("reportingComponent"),
        Selectable::field("type"),
    ],
    storage_version: Some("v1"),
    expires: true,
    allow_create_on_update: true,
    default_dependents: Dependents::Ignored,
    columns: columns::event::EVENT,
    rules: Rules {
        validate_create: |event| reported(event, &CORE_NAMES),
        validate_update: |event, _| reported(event, &CORE_NAMES),
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::None,
    ..Kind::new("", "events")
};

/// `events` of `events.k8s.io`.
pub static EVENTS: Kind = Kind {
    field_labels: &[
        ("metadata.name", "metadata.name"),
        ("metadata.namespace", "metadata.namespace"),
        ("reason", "reason"),
        ("regarding.apiVersion", "involvedObject.apiVersion"),
        ("regarding.fieldPath", "involvedObject.fieldPath"),
        ("regarding.kind", "involvedObject.kind"),
        ("regarding.name", "involvedObject.name"),
        ("regarding.namespace", "involvedObject.namespace"),
        ("regarding.resourceVersion", "involvedObject.resourceVersion"),
        ("regarding.uid", "involvedObject.uid"),
        ("reportingController", "reportingComponent"),
        ("type", "type"),
    ],
    stored_with: Some(&CORE),
    allow_create_on_update: true,
    default_dependents: Dependents::Ignored,
    columns: columns::event::EVENT,
    rules: Rules { validate_create, validate_update, ..Rules::NONE },
    ..Kind::new("events.k8s.io", "events")
};

const MAX_NAME: usize = 128;
const MAX_NOTE: usize = 1024;

/// Names of an event's fields in one of the groups.
struct Names {
    object: &'static str,
    note: &'static str,
    controller: &'static str,
}

const CORE_NAMES: Names =
    Names { object: "involvedObject", note: "message", controller: "reportingComponent" };
const EVENTS_NAMES: Names =
    Names { object: "regarding", note: "note", controller: "reportingController" };

/// Field names of `events.k8s.io`, with the core names that messages show.
const CALLED: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

fn reported(event: Field, names: &Names) {
    let namespace = event.at("metadata").at("namespace").str();
    let object = event.at(names.object);
    let about = object.at("namespace");
    let called = event.at("involvedObject");
    let called = called.at("namespace");
    let apart = |wrong: bool| {
        if wrong {
            called.invalid_as(about.str(), "does not match event.namespace");
        }
    };
    if event.at("eventTime").is_absent() {
        match about.str() {
            "" => apart(!matches!(namespace, "" | "default")),
            other => apart(other != namespace),
        }
    } else {
        apart(about.is_empty() && !matches!(namespace, "default" | "kube-system"));
        let controller = event.at(names.controller);
        controller.must("");
        controller.form(name::is_label_key);
        for field in ["reportingInstance", "action", "reason"] {
            event.at(field).must("");
            at_most(event.at(field), MAX_NAME);
        }
        at_most(event.at("message").with(event.at(names.note).get()), MAX_NOTE);
    }
    for problem in name::is_dns1123_subdomain(namespace) {
        event.at("namespace").invalid_as(namespace, problem);
    }
}

fn at_most(field: Field, most: usize) {
    if field.len() > most {
        field.invalid_as("", format!("can have at most {most} characters"));
    }
}

fn series(event: Field) {
    let series = event.at("series");
    if series.is_absent() {
        return;
    }
    if series.at("count").int() < 2 {
        series.at("count").invalid_as("", "should be at least 2");
    }
    if series.at("lastObservedTime").is_absent() {
        series.at("lastObservedTime").required("");
    }
}

fn validate_create(event: Field) {
    reported(event, &EVENTS_NAMES);
    series(event);
    if event.at("eventTime").is_absent() {
        event.at("eventTime").required("");
    }
    let ty = event.at("type");
    if !matches!(ty.str(), "Normal" | "Warning") {
        ty.invalid_as("", format!("has invalid value: {}", ty.str()));
    }
    let source = event.at("deprecatedSource");
    for (set, called) in [
        (event.at("deprecatedFirstTimestamp").is_set(), "firstTimestamp"),
        (event.at("deprecatedLastTimestamp").is_set(), "lastTimestamp"),
        (event.at("deprecatedCount").int() != 0, "count"),
        (!source.at("component").is_empty() || !source.at("host").is_empty(), "source"),
    ] {
        if set {
            event.at(called).invalid_as("", "needs to be unset");
        }
    }
}

fn validate_update(event: Field, old: Field) {
    reported(event, &EVENTS_NAMES);
    event.metadata_again();
    if !event.at("series").same(&old.at("series")) {
        series(event);
    }
    for (field, called) in CALLED {
        let new = event.at(field);
        if !new.same(&old.at(field)) {
            event.at(called).invalid_as(new.bad_value_by_type(), IMMUTABLE);
        }
    }
}
