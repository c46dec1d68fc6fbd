//! Kind CronJob: strategy and validation.

use kevel_api::field_error::BadValue;

use super::{job, schedule, time_zone};
use crate::columns;
use crate::kind::Kind;
use crate::pod::template;
use crate::rules::Rules;
use crate::validation::Field;

/// `cronjobs`
pub static KIND: Kind = Kind {
    counts_generation: true,
    columns: columns::batch::CRON_JOB,
    rules: Rules {
        prepare_for_create: |cron_job, capabilities| {
            template::prepare_at(cron_job, None, TEMPLATE, capabilities)
        },
        validate_create,
        prepare_for_update: |cron_job, old, capabilities| {
            template::prepare_at(cron_job, Some(old), TEMPLATE, capabilities)
        },
        validate_update,
        warnings: |cron_job, old| job::warnings(cron_job, old, TEMPLATE),
        ..Rules::NONE
    },
    ..Kind::new("batch", "cronjobs")
};

const TEMPLATE: &[&str] = &["spec", "jobTemplate", "spec", "template"];

/// Maximum length of a CronJob's name: the names of its Jobs are 11 characters longer.
const MAX_NAME: usize = 52;

fn validate_create(cron_job: Field) {
    spec(cron_job.at("spec"), None);
    let metadata = cron_job.at("metadata");
    let name = metadata.at("name");
    if name.len() > MAX_NAME {
        name.invalid("must be no more than 52 characters");
    }
}

fn validate_update(cron_job: Field, old: Field) {
    spec(cron_job.at("spec"), Some(old.at("spec")));
}

fn spec(spec: Field, old: Option<Field>) {
    let (when, zone) = (spec.at("schedule"), spec.at("timeZone"));
    if when.must("") {
        let had_zone = old.is_some_and(|old| old.at("schedule").str().contains("TZ"));
        check_schedule(when, zone.is_set(), had_zone);
    }
    spec.at("startingDeadlineSeconds").non_negative();
    if old.is_none_or(|old| !old.at("timeZone").same(&zone)) {
        check_time_zone(zone);
    }
    spec.at("concurrencyPolicy").must_one_of("", &["Allow", "Forbid", "Replace"]);
    job_template(spec.at("jobTemplate"), old);
    spec.at("successfulJobsHistoryLimit").non_negative();
    spec.at("failedJobsHistoryLimit").non_negative();
}

fn check_schedule(when: Field, zoned: bool, had_zone: bool) {
    if let Err(why) = schedule::parse(when.str()) {
        when.invalid(why);
    }
    let has_zone = when.str().contains("TZ");
    if has_zone && had_zone && zoned {
        when.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule");
    } else if has_zone && !had_zone {
        when.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    }
}

fn check_time_zone(zone: Field) {
    if zone.is_absent() {
        return;
    }
    let name = zone.str();
    if name.is_empty() {
        return zone.invalid("timeZone must be nil or non-empty string");
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    let good = |part: &str| {
        (1..=14).contains(&part.len())
            && part.bytes().all(plain)
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
    };
    if !name.split('/').all(good) {
        return zone.invalid(format!("unknown time zone {name}"));
    }
    if name.eq_ignore_ascii_case("Local") {
        zone.invalid(
            "timeZone must be an explicit time zone as defined in \
             https://www.iana.org/time-zones",
        );
    }
    if name.contains("..") {
        zone.invalid("time: invalid location name");
    } else if name != "Local" && !time_zone::is_known(name) {
        zone.invalid(format!("unknown time zone {name}"));
    }
}

fn job_template(template: Field, old: Option<Field>) {
    let spec = template.at("spec");
    let path = "jobTemplate.spec.template";
    job::spec(spec, old.as_ref().map(|old| old.down(path)));
    let (selector, manual) = (spec.at("selector"), spec.at("manualSelector"));
    if selector.is_set() {
        selector.invalid("`selector` will be auto-generated");
    }
    if manual.bool() {
        manual.unsupported_as(BadValue::from(true), &["nil", "false"]);
    }
}
