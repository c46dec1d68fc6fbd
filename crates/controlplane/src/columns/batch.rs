//! `batch`

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{NONE, Shown, UNSET, cells};

const CONTAINERS: Column =
    Column::text("Containers", "The names of the template's containers.").wide();
const IMAGES: Column = Column::text("Images", "The images of the template's containers.").wide();
const SELECTOR: Column = Column::text("Selector", "Which pods are the job's own.").wide();

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "cronjobs",
        definitions: &[
            Column::NAME,
            Column::text("Schedule", "batch.v1.CronJobSpec#schedule"),
            Column::text("Timezone", "batch.v1.CronJobSpec#timeZone"),
            Column::boolean("Suspend", "batch.v1.CronJobSpec#suspend"),
            Column::integer("Active", "batch.v1.CronJobStatus#active"),
            Column::text("Last Schedule", "batch.v1.CronJobStatus#lastScheduleTime"),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: cron_jobs,
        ..Kind::PLAIN
    },
    Kind {
        plural: "jobs",
        definitions: &[
            Column::NAME,
            Column::text("Status", "How the job stands."),
            Column::text("Completions", "batch.v1.JobStatus#succeeded"),
            Column::text("Duration", "How long the job took, or has taken so far."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: jobs,
        ..Kind::PLAIN
    },
];

fn cron_jobs(o: &Shown<'_>) -> Vec<Value> {
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
    cells![
        o.name(),
        o.text("spec.schedule"),
        o.set_or("spec.timeZone", NONE),
        suspend,
        o.count("status.active"),
        last,
        o.age(),
        names,
        images,
        o.selector("spec.jobTemplate.spec.selector"),
    ]
}

fn jobs(o: &Shown<'_>) -> Vec<Value> {
    let (names, images) = o.containers("spec.template");
    cells![
        o.name(),
        status(o),
        completions(o),
        o.took("status.startTime", "status.completionTime"),
        o.age(),
        names,
        images,
        o.selector("spec.selector"),
    ]
}

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
