//! Default rules of Jobs.

use super::{labels_of_template, set_missing, struct_in};
use crate::value::Map;

/// Defaults of a Job; the template in a CronJob is not defaulted until it becomes a Job.
pub(super) fn job(job: &mut Map, field: &str) {
    labels_of_template(job);
    let Some(spec) = struct_in(job, field) else { return };
    if !spec.contains_key("parallelism") {
        set_missing(spec, "completions", 1_i64);
        set_missing(spec, "parallelism", 1_i64);
    }
    let per_index = spec.contains_key("backoffLimitPerIndex");
    set_missing(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6_i64 });
    set_missing(spec, "completionMode", "NonIndexed");
    set_missing(spec, "manualSelector", false);
    let by_failure = spec.contains_key("podFailurePolicy");
    let replacement = if by_failure { "Failed" } else { "TerminatingOrFailed" };
    set_missing(spec, "podReplacementPolicy", replacement);
    set_missing(spec, "suspend", false);
}
