//! Columns of `batch`.

use kevel_api::value::Value;
use kevel_registry::columns::Column;

use super::cell::{NONE, Shown, UNSET};
use super::{Columns, columns};

const CONTAINERS: Column =
    Column::text("Containers", "The names of the template's containers.").wide();
const IMAGES: Column = Column::text("Images", "The images of the template's containers.").wide();
const SELECTOR: Column = Column::text("Selector", "batch.v1.JobSpec#selector").wide();

pub(crate) const CRON_JOB: Columns = columns!(
    |o| where {
        let suspend = match o.at("spec.suspend").0.and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => UNSET,
        };
        let last = match o.at("status.lastScheduleTime").is_set() {
            true => o.since("status.lastScheduleTime"),
            false => NONE.into(),
        };
        let (names, images) = o.containers("spec.jobTemplate.spec.template");
    }
    Column::NAME => o.name(),
    Column::text("Schedule", "batch.v1.CronJobSpec#schedule") => o.text("spec.schedule"),
    Column::text("Timezone", "batch.v1.CronJobSpec#timeZone") => o.set_or("spec.timeZone", NONE),
    Column::boolean("Suspend", "batch.v1.CronJobSpec#suspend") => suspend,
    Column::integer("Active", "batch.v1.CronJobStatus#active") => o.count("status.active"),
    Column::text("Last Schedule", "batch.v1.CronJobStatus#lastScheduleTime") => last,
    Column::AGE => o.age(),
    CONTAINERS => names,
    IMAGES => images,
    SELECTOR => o.selector("spec.jobTemplate.spec.selector"),
);

pub(crate) const JOB: Columns = columns!(
    |o| where {
        let (names, images) = o.containers("spec.template");
    }
    Column::NAME => o.name(),
    Column::text("Status", "How the job stands.") => status(o),
    Column::text("Completions", "batch.v1.JobStatus#succeeded") => completions(o),
    Column::text("Duration", "How long the job took, or has taken so far.") =>
        o.took("status.startTime", "status.completionTime"),
    Column::AGE => o.age(),
    CONTAINERS => names,
    IMAGES => images,
    SELECTOR => o.selector("spec.selector"),
);

fn status(o: &Shown<'_>) -> &'static str {
    let of_conditions = |types: &[&'static str]| types.iter().copied().find(|ty| o.holds(ty));
    of_conditions(&["Complete", "Failed"])
        .or_else(|| o.is_deleted().then_some("Terminating"))
        .or_else(|| of_conditions(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]))
        .unwrap_or("Running")
}

fn completions(o: &Shown<'_>) -> String {
    let succeeded = o.int("status.succeeded");
    match (o.at("spec.completions"), o.int("spec.parallelism")) {
        (wanted, _) if wanted.is_set() => format!("{succeeded}/{}", wanted.as_int()),
        (_, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        _ => format!("{succeeded}/1"),
    }
}
