//! `apps`: DaemonSet, Deployment, ReplicaSet, StatefulSet and ControllerRevision; and ReplicationController.

pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub mod replica_set;
pub mod replication_controller;
pub mod stateful_set;

use kevel_api::selector::label::LabelSelector;
use kevel_api::value::Value;

use crate::pod::template;
use crate::validation::{Field, IMMUTABLE};

/// Checks a selector and that it selects the template's labels.
fn selector_and_template(spec: Field, old: Option<Field>, kind: &'static str) {
    selector(spec.at("selector"), kind);
    let selector = spec.at("selector");
    if is_broken(selector) {
        return selector.invalid("invalid label selector");
    }
    matches_template(spec);
    replicated(spec.at("template"), old, "ReplicaSet");
}

/// Checks a required selector that must not be empty.
fn selector(selector: Field, kind: &'static str) {
    if selector.is_absent() {
        return selector.required("");
    }
    selector.label_selector(false);
    if is_empty(selector) {
        let why = format!("empty selector is invalid for {kind}");
        selector.invalid(why);
    }
}

fn is_empty(selector: Field) -> bool {
    selector.at("matchLabels").len() + selector.at("matchExpressions").len() == 0
}

/// True if a selector cannot be parsed.
fn is_broken(selector: Field) -> bool {
    LabelSelector::from_value(selector.get()).is_err()
}

fn matches_template(spec: Field) {
    let (selector, labels) = (spec.at("selector"), spec.down("template.metadata.labels"));
    let anything = selector.is_set() && is_empty(selector);
    if !anything && selector.selects(&labels) == Some(false) {
        let why = "`selector` does not match template `labels`";
        labels.invalid(why);
    }
}

/// Checks a template whose `restartPolicy` must be Always.
fn replicated(field: Field, old: Option<Field>, kind: &'static str) {
    template::check(field, old);
    runs_for_good(field, kind);
}

fn runs_for_good(template: Field, kind: &'static str) {
    let policy = template.down("spec.restartPolicy");
    policy.one_of(&["Always"]);
    let deadline = template.down("spec.activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.forbidden(format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

fn immutable_selector(spec: Field, old: Field) {
    let selector = spec.at("selector");
    if !selector.same(&old.at("selector")) {
        selector.invalid(IMMUTABLE);
    }
}

/// Checks counts in a status: not negative, and those in `bounded` at most `replicas`.
fn replica_counts(status: Field, all: &[&str], bounded: &[&str], available: &'static str) {
    all.iter().for_each(|field| status.at(field).non_negative());
    let replicas = status.at("replicas").int();
    for field in bounded.iter().map(|field| status.at(field)) {
        if field.int() > replicas {
            field.invalid_as(field.int(), "cannot be greater than status.replicas");
        }
    }
    let (ready, now) = (status.at("readyReplicas"), status.at("availableReplicas"));
    if now.int() > ready.int() {
        now.invalid_as(now.int(), available);
    }
}

fn not_decremented(count: Field, old: Field) {
    if old.is_set() && (count.is_absent() || count.int() < old.int()) {
        count.invalid_as(count.int(), "cannot be decremented");
    }
}

/// Number of an IntOrString; a percentage without its sign.
fn int_or_percent(field: Field) -> i64 {
    field.percent().unwrap_or_else(|| match field.get() {
        Some(Value::String(text)) => text.parse().unwrap_or_default(),
        _ => field.int(),
    })
}
