//! Validation of a Job's status.

use std::collections::HashSet;

use super::indexes;
use crate::validation::Field;

/// True if the condition's status is True.
pub fn is_true(conditions: Field, ty: &str) -> bool {
    has(conditions, ty, "True")
}

fn has(conditions: Field, ty: &str, status: &str) -> bool {
    conditions.items().any(|c| c.at("type").str() == ty && c.at("status").str() == status)
}

fn is_finished(conditions: Field) -> bool {
    is_true(conditions, "Complete") || is_true(conditions, "Failed")
}

/// Checks the changes of a status: invalid values that are stored already do not block an update.
pub fn check(job: Field, old: Field) {
    let (spec, status, was) = (job.at("spec"), job.at("status"), old.at("status"));
    amounts(status);
    let (conditions, before) = (status.at("conditions"), was.at("conditions"));
    let now = |ty: &str| is_true(conditions, ty);
    let turned = |ty: &str| now(ty) != is_true(before, ty);
    let changed = |field: &str| !status.at(field).same(&was.at(field));
    let finished = is_finished(conditions);
    let ended = finished != is_finished(before);
    let says = |why: &'static str| conditions.invalid_silently(why);

    if (turned("Complete") || turned("Failed")) && now("Complete") && now("Failed") {
        says("cannot set Complete=True and Failed=true conditions");
    }
    if (turned("Complete") || turned("FailureTarget")) && now("Complete") && now("FailureTarget") {
        says("cannot set Complete=True and FailureTarget=true conditions");
    }
    times(status, was, now("Complete"), turned("Complete"));
    if (turned("Failed") || changed("failedIndexes")) && now("Failed") && !now("FailureTarget") {
        says("cannot set Failed=True condition without the FailureTarget=true condition");
    }
    let criteria = turned("Complete") || turned("SuccessCriteriaMet");
    if criteria && now("Complete") && !now("SuccessCriteriaMet") {
        says("cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
    let active = status.at("active");
    if (ended || changed("active")) && finished && active.int() > 0 {
        active.invalid("active>0 is invalid for finished job");
    }
    let nothing = spec.at("suspend").bool() && spec.at("completions").int_or_absent() == Some(0);
    let start = status.at("startTime");
    if (ended || changed("startTime")) && !nothing && start.is_absent() && finished {
        start.required("startTime is required for finished job");
    }
    let uncounted = status.at("uncountedTerminatedPods");
    let left = uncounted.at("succeeded").len() + uncounted.at("failed").len();
    if (ended || changed("uncountedTerminatedPods")) && finished && left > 0 {
        uncounted.invalid("must be empty for finished job");
    }
    check_indexes(spec, status, was);
    let terminating = status.at("terminating");
    if (ended || changed("terminating")) && finished && terminating.int() > 0 {
        terminating.invalid("terminating>0 is invalid for finished job");
    }
    let ready = status.at("ready");
    if (changed("ready") || changed("active")) && ready.is_set() && ready.int() > active.int() {
        ready.invalid("cannot set more ready pods than active");
    }
    if now("SuccessCriteriaMet") && now("Failed") {
        says("cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if now("SuccessCriteriaMet") && now("FailureTarget") {
        says("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if spec.at("successPolicy").is_set() && !now("SuccessCriteriaMet") && now("Complete") {
        says("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True");
    }
    check_change(job, status, was);
}

fn amounts(status: Field) {
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        status.at(field).non_negative();
    }
    let mut seen = HashSet::new();
    let uncounted = status.at("uncountedTerminatedPods");
    for list in ["succeeded", "failed"] {
        for pod in uncounted.at(list).items() {
            match pod.str() {
                "" => pod.invalid("must not be empty"),
                uid => pod.unique(&mut seen, uid),
            }
        }
    }
}

fn times(status: Field, was: Field, complete: bool, turned: bool) {
    let (start, end) = (status.at("startTime"), status.at("completionTime"));
    let moved = |field: &str| !status.at(field).same(&was.at(field));
    if (turned || moved("completionTime")) && end.is_set() && !complete {
        end.invalid("cannot set completionTime when there is no Complete=True condition");
    }
    if (turned || moved("completionTime")) && end.is_absent() && complete {
        end.required("completionTime is required for Complete jobs");
    }
    // Timestamps have one format, so that they can be compared as strings.
    let both = start.is_set() && end.is_set();
    if (moved("startTime") || moved("completionTime")) && both && end.str() < start.str() {
        end.invalid("must be equal to or after `startTime`");
    }
}

fn check_indexes(spec: Field, status: Field, was: Field) {
    let (completed, failed) = (status.at("completedIndexes"), status.at("failedIndexes"));
    let (completions, per_index) = (spec.at("completions"), spec.at("backoffLimitPerIndex"));
    let new_completed = !completed.same(&was.at("completedIndexes"));
    let new_failed = !failed.same(&was.at("failedIndexes"));
    let count = |field: Field| indexes::count(field.str(), completions.int());
    if new_completed
        && completions.is_set()
        && let Err(why) = count(completed)
    {
        completed.invalid(format!("error parsing completedIndexes: {why}"));
    }
    let counted = completions.is_set() && per_index.is_set();
    if new_failed
        && counted
        && failed.is_set()
        && let Err(why) = count(failed)
    {
        failed.invalid(format!("error parsing failedIndexes: {why}"));
    }
    let indexed = spec.at("completionMode").str() == "Indexed";
    if new_completed && !completed.is_empty() && !indexed {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        completed.invalid(why);
    }
    if new_failed && per_index.is_absent() && failed.is_set() {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        failed.invalid(why);
    }
    if (new_failed || new_completed) && completions.is_set() && failed.is_set() {
        let overlap = indexes::overlap(completed.str(), failed.str(), completions.int());
        if let Some(index) = overlap {
            failed.invalid(format!("failedIndexes and completedIndexes overlap at index: {index}"));
        }
    }
}

/// Checks that terminal conditions and counters are not taken back.
fn check_change(job: Field, status: Field, was: Field) {
    let (conditions, before) = (status.at("conditions"), was.at("conditions"));
    for ty in ["Failed", "Complete", "FailureTarget"] {
        if is_true(before, ty) && !is_true(conditions, ty) {
            let why = format!("cannot disable the terminal {ty}=True condition");
            conditions.invalid_silently(why);
        }
    }
    let (failed, succeeded) = (status.at("failed"), status.at("succeeded"));
    if failed.int() < was.at("failed").int() {
        failed.invalid_as(failed.int(), "cannot decrease the failed counter");
    }
    let spec = job.at("spec");
    let elastic = spec.at("completionMode").str() == "Indexed"
        && spec.at("completions").same(&spec.at("parallelism"));
    if !elastic && succeeded.int() < was.at("succeeded").int() {
        succeeded.invalid_as(succeeded.int(), "cannot decrease the succeeded counter");
    }
    let (end, old_end) = (status.at("completionTime"), was.at("completionTime"));
    if end.is_set() && old_end.is_set() && !end.same(&old_end) {
        end.invalid("field is immutable");
    }
    let (start, old_start) = (status.at("startTime"), was.at("startTime"));
    let resuming = is_true(before, "Suspended") && has(conditions, "Suspended", "False");
    let fixed = old_start.is_set() && !spec.at("suspend").bool() && !resuming;
    if fixed && !start.same(&old_start) {
        let why = "field is immutable for unsuspended job once set";
        start.invalid(why);
    }
    let met = |conditions: Field| is_true(conditions, "SuccessCriteriaMet");
    if met(before) && !met(conditions) {
        conditions.invalid_silently("cannot disable the SuccessCriteriaMet=True condition");
    }
    if is_true(before, "Complete") && !met(before) && met(conditions) {
        conditions.invalid_silently(
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        );
    }
}
