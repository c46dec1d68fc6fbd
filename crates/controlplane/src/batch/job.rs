//! Kind Job: validation and preparation.

use std::collections::HashSet;

use kevel_api::name;
use kevel_api::value::{Map, Value, equivalent};
use kevel_features::{Feature, Gated, drop_gated};
use kevel_registry::strategy::Dependents;

use super::{indexes, job_status};
use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::{FieldLabels, Kind, MetadataChecks, Selectable};
use crate::pod::template;
use crate::rules::Rules;
use crate::validation::Field;

/// Kind Job.
pub static KIND: Kind = Kind {
    selectable_fields: &[Selectable::named("status.successful", "status.succeeded")],
    unknown_field_labels: FieldLabels::OwnQuoted,
    counts_generation: true,
    default_dependents: Dependents::Orphaned,
    deletion_warning: Some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
         remove them or set propagationPolicy=Orphan to suppress this warning",
    ),
    columns: columns::batch::JOB,
    rules: Rules {
        prepare_for_create,
        validate_create: |job| check(job, None),
        prepare_for_update: |job, old, capabilities| {
            drop_gated(job, Some(old), GATED, &capabilities.features);
            template::prepare_at(job, Some(old), template::IN_SPEC, capabilities)
        },
        validate_update,
        prepare_for_status_update: |job, _, _| template::label_by_template(job),
        validate_status_update: job_status::check,
        warnings: |job, old| warnings(job, old, template::IN_SPEC),
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("batch", "jobs")
};

/// Fields that only a feature lets in.
const GATED: &[Gated] =
    &[Gated::new(&[Feature::JobPodReplacementPolicy], &["spec.podReplacementPolicy"])];

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// Names that these labels had before they got a domain.
const OLD_CONTROLLER_UID: &str = "controller-uid";
const OLD_JOB_NAME: &str = "job-name";

const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
/// Beyond so many completions, less may run and fail.
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_OF_MANY: i64 = 10_000;
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_PATTERNS: usize = 20;
const MAX_MANAGED_BY: usize = 63;
const MAX_SUCCEEDED_INDEXES: usize = 64 << 10;

/// A job finds its pods by labels that the server makes up, unless it says that it has its own.
fn prepare_for_create(job: &mut Value, capabilities: &Capabilities) {
    drop_gated(job, None, GATED, &capabilities.features);
    template::prepare_at(job, None, template::IN_SPEC, capabilities);
    if job.at(&["spec", "manualSelector"]).and_then(Value::as_bool) == Some(true) {
        return;
    }
    let name = Value::from(job.str_at(&["metadata", "name"]));
    let uid = Value::from(job.str_at(&["metadata", "uid"]));
    let generated = [
        (OLD_JOB_NAME, &name),
        (JOB_NAME, &name),
        (OLD_CONTROLLER_UID, &uid),
        (CONTROLLER_UID, &uid),
    ];
    // Where neither has labels, the job gets them after it was checked: a name that is no label is told once.
    let none = |path: &[&str]| job.at(path).is_none_or(Value::is_empty);
    let bare = none(&["spec", "template", "metadata", "labels"]) && none(&["metadata", "labels"]);
    let inherits = bare && name::is_label_value(job.str_at(&["metadata", "name"])).is_empty();
    let Some(job) = job.as_map_mut() else { return };
    let own = inherits.then_some(&["metadata", "labels"][..]);
    for path in [&["spec", "template", "metadata", "labels"][..]].into_iter().chain(own) {
        let labels = below(job, path);
        for (label, value) in generated {
            labels.entry_or_insert_with(label, || value.clone());
        }
    }
    let spec = below(job, &["spec"]);
    below(spec, &["selector", "matchLabels"]).entry_or_insert_with(CONTROLLER_UID, || uid);
}

/// The map at a path, made where there is none.
fn below<'m>(map: &'m mut Map, path: &[&str]) -> &'m mut Map {
    path.iter().fold(map, |map, name| {
        let value = map.entry_or_insert_with(name, || Map::new().into());
        if !matches!(value, Value::Map(_)) {
            *value = Map::new().into();
        }
        match value {
            Value::Map(map) => map,
            _ => unreachable!("it was made a map"),
        }
    })
}

/// Warnings about a job or job template.
pub fn warnings(job: &Value, old: Option<&Value>, path: &[&str]) -> Vec<String> {
    let named = old.is_none().then(|| template::name_warning(job)).flatten();
    named.into_iter().chain(template::template_warnings(job, old, path)).collect()
}

fn check(job: Field, old: Option<Field>) {
    generated_selector(job, old);
    let old = old.as_ref().map(|old| old.at("spec"));
    spec_and_selector(job.at("spec"), old);
    let spec = job.at("spec");
    let completions = spec.at("completions").int();
    if is_indexed(spec) && completions > 0 {
        let metadata = job.at("metadata");
        let name = metadata.at("name");
        let hostname = format!("{}-{}", name.str(), completions - 1);
        if !name::is_dns1123_label(&hostname).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {hostname}");
            name.invalid(why);
        }
    }
}

fn generated_selector(job: Field, old: Option<Field>) {
    let (metadata, spec) = (job.at("metadata"), job.at("spec"));
    let selector = spec.at("selector");
    if spec.at("manualSelector").bool() || selector.is_absent() {
        return;
    }
    let (uid, name) = (metadata.at("uid"), metadata.at("name").str());
    uid.must("");
    // Jobs that are older than the labels with a domain do without them.
    let prefixed = old.is_none_or(|old| {
        let labels = old.down("spec.template.metadata.labels");
        labels.key(JOB_NAME).is_set() && labels.key(CONTROLLER_UID).is_set()
    });
    let mut expected = vec![(OLD_CONTROLLER_UID, uid.str()), (OLD_JOB_NAME, name)];
    if prefixed {
        expected.extend([(CONTROLLER_UID, uid.str()), (JOB_NAME, name)]);
    }
    let template = spec.at("template");
    let template = template.at("metadata");
    let labels = template.at("labels");
    for (key, value) in &expected {
        let label = labels.key(key);
        if label.is_absent() {
            label.required(format!("must be '{value}'"));
        } else if label.str() != *value {
            label.invalid_as(labels.bad_value(), format!("must be '{value}'"));
        }
    }
    let expected: Map = expected.into_iter().map(|(key, value)| (key, value.into())).collect();
    if selector.selects(&labels.with(Some(&expected.into()))) == Some(false) {
        selector.invalid("`selector` not auto-generated");
    }
}

fn spec_and_selector(field: Field, old: Option<Field>) {
    spec(field, old.as_ref().map(|old| old.at("template")));
    let selector = field.at("selector");
    let odd = old.is_some_and(|old| old.at("selector").has_odd_values());
    match selector.is_set() {
        true => selector.label_selector(odd),
        false => selector.required(""),
    }
    let labels = field.down("template.metadata.labels");
    if selector.selects(&labels) == Some(false) {
        labels.invalid("`selector` does not match template `labels`");
    }
}

fn is_indexed(spec: Field) -> bool {
    spec.at("completionMode").str() == "Indexed"
}

/// Everything about a job but its selector.
pub fn spec(spec: Field, old_template: Option<Field>) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.at(field).non_negative();
    }
    if spec.at("maxFailedIndexes").is_set() && spec.at("backoffLimitPerIndex").is_absent() {
        spec.at("backoffLimitPerIndex").required("when maxFailedIndexes is specified");
    }
    let manager = spec.at("managedBy");
    if manager.is_set() {
        manager.extend(name::is_domain_prefixed_path(&manager.path(), manager.str()));
        if manager.len() > MAX_MANAGED_BY {
            manager.too_long(MAX_MANAGED_BY);
        }
    }
    completion_mode(spec);
    if spec.at("podFailurePolicy").is_set() {
        pod_failure_policy(spec);
    }
    let success = spec.at("successPolicy");
    match success.is_set() {
        true if is_indexed(spec) => success_policy(spec),
        true => success.invalid("requires indexed completion mode"),
        false => {}
    }
    replacement_policy(spec);
    template::check(spec.at("template"), old_template);
    restart_policy(spec);
}

fn completion_mode(spec: Field) {
    let mode = spec.at("completionMode");
    let (failed, per_index) = (spec.at("maxFailedIndexes"), spec.at("backoffLimitPerIndex"));
    if mode.is_set() {
        mode.one_of(&["NonIndexed", "Indexed"]);
    }
    if mode.is_absent() || mode.str() == "NonIndexed" {
        for field in [per_index, failed].iter().filter(|field| field.is_set()) {
            field.invalid("requires indexed completion mode");
        }
    }
    if !is_indexed(spec) {
        return;
    }
    let (completions, parallelism) = (spec.at("completions"), spec.at("parallelism"));
    if completions.is_absent() {
        completions.required("when completion mode is Indexed");
    }
    let at_most = |field: Field, most: i64, when: &str| {
        if field.int() > most {
            field.invalid(format!("must be less than or equal to {most}{when}"));
        }
    };
    at_most(parallelism, MAX_PARALLELISM, " when completion mode is Indexed");
    if completions.is_set() && failed.int() > completions.int() {
        failed.invalid("must be less than or equal to completions");
    }
    at_most(failed, MAX_FAILED_INDEXES, "");
    if completions.int() > MANY_COMPLETIONS && per_index.is_set() {
        let why = "must be specified when completions is above 100000";
        if failed.is_absent() {
            failed.required(why);
        }
        let when = " when completions are above 100000 and used with backoff limit per index";
        at_most(parallelism, MAX_OF_MANY, when);
        at_most(failed, MAX_OF_MANY, when);
    }
}

fn pod_failure_policy(spec: Field) {
    let policy = spec.at("podFailurePolicy");
    let rules = policy.at("rules");
    if rules.len() > MAX_RULES {
        rules.too_many(rules.len(), MAX_RULES);
    }
    let pod = spec.down("template.spec");
    let lists = ["containers", "initContainers"].map(|list| pod.at(list).list());
    let containers: HashSet<&str> =
        lists.into_iter().flatten().map(|container| container.str_at(&["name"])).collect();
    for rule in rules.items() {
        let (action, codes) = (rule.at("action"), rule.at("onExitCodes"));
        let conditions = rule.at("onPodConditions");
        match action.str() {
            "FailIndex" if spec.at("backoffLimitPerIndex").is_absent() => {
                action.invalid("requires the backoffLimitPerIndex to be set");
            }
            "FailIndex" => {}
            _ => action.must_one_of(
                "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
                &["Count", "FailIndex", "FailJob", "Ignore"],
            ),
        }
        if codes.is_set() {
            exit_codes(codes, &containers);
        }
        if !conditions.is_empty() {
            pod_conditions(conditions);
        }
        match (codes.is_set(), !conditions.is_empty()) {
            (true, true) => rule.invalid_silently(
                "specifying both OnExitCodes and OnPodConditions is not supported",
            ),
            (false, false) => rule
                .invalid_silently("specifying one of OnExitCodes and OnPodConditions is required"),
            _ => {}
        }
    }
}

fn pod_conditions(patterns: Field) {
    if patterns.len() > MAX_PATTERNS {
        patterns.too_many(patterns.len(), MAX_PATTERNS);
    }
    for pattern in patterns.items() {
        pattern.at("type").label_name();
        pattern.at("status").must_one_of(
            "valid values: [\"False\" \"True\" \"Unknown\"]",
            &["False", "True", "Unknown"],
        );
    }
}

fn exit_codes(codes: Field, containers: &HashSet<&str>) {
    let operator = codes.at("operator");
    operator.must_one_of("valid values: [\"In\" \"NotIn\"]", &["In", "NotIn"]);
    let container = codes.at("containerName");
    if container.is_set() && !containers.contains(container.str()) {
        let why = "must be one of the container or initContainer names in the pod template";
        container.invalid(why);
    }
    let values = codes.at("values");
    if values.is_empty() {
        values.invalid("at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        values.too_many(values.len(), MAX_EXIT_CODES);
    }
    let mut seen = HashSet::new();
    for value in values.items() {
        if operator.str() == "In" && value.int() == 0 {
            value.invalid("must not be 0 for the In operator");
        }
        if !seen.insert(value.int()) {
            value.duplicate();
        }
    }
    if !values.list().is_sorted_by_key(|value| value.as_int().unwrap_or_default()) {
        values.invalid("must be ordered");
    }
}

fn success_policy(spec: Field) {
    let policy = spec.at("successPolicy");
    let rules = policy.at("rules");
    rules.must("at least one rules must be specified when the successPolicy is specified");
    if rules.len() > MAX_RULES {
        rules.too_many(rules.len(), MAX_RULES);
    }
    let completions = spec.at("completions").int();
    for rule in rules.items() {
        let (count, indexes) = (rule.at("succeededCount"), rule.at("succeededIndexes"));
        if count.is_absent() && indexes.is_absent() {
            rule.required("at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = 0;
        if indexes.is_set() {
            if indexes.len() > MAX_SUCCEEDED_INDEXES {
                indexes.too_long(MAX_SUCCEEDED_INDEXES);
            }
            match indexes::count(indexes.str(), completions) {
                Ok(count) => total = count,
                Err(why) => indexes.invalid(format!("error parsing succeededIndexes: {why}")),
            }
        }
        if count.is_absent() {
            continue;
        }
        count.non_negative();
        if count.int() > completions {
            count.invalid(format!(
                "must be less than or equal to {completions} (the number of specified completions)"
            ));
        }
        if indexes.is_set() && count.int() > total {
            count.invalid(format!(
                "must be less than or equal to {total} (the number of indexes in the specified \
                 succeededIndexes field)"
            ));
        }
    }
}

fn replacement_policy(spec: Field) {
    let policy = spec.at("podReplacementPolicy");
    if policy.is_set() {
        match spec.at("podFailurePolicy").is_set() {
            true => policy.one_of(&["Failed"]),
            false => policy.one_of(&["Failed", "TerminatingOrFailed"]),
        }
    }
}

fn restart_policy(spec: Field) {
    let policy = spec.down("template.spec.restartPolicy");
    match policy.str() {
        "Always" | "" => policy.required("valid values: \"OnFailure\", \"Never\""),
        "OnFailure" | "Never" => {
            if spec.at("podFailurePolicy").is_set() && policy.str() != "Never" {
                policy.invalid("only \"Never\" is supported when podFailurePolicy is specified");
            }
        }
        _ => policy.unsupported(&["OnFailure", "Never"]),
    }
}

fn validate_update(job: Field, old: Field) {
    check(job, Some(old));
    job.metadata_again();
    let (spec, was) = (job.at("spec"), old.at("spec"));
    // The reference checks the spec twice, and says so in the causes.
    spec_and_selector(spec, Some(was));
    completions(spec, was);
    let selector = spec.at("selector");
    selector.immutable(&was.at("selector"));
    pod_template(spec, was, old);
    for field in
        ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        spec.at(field).immutable(&was.at(field));
    }
}

/// Restricts changes of `completions`: only together with `parallelism`, or not at all.
fn completions(spec: Field, old: Field) {
    let (completions, was) = (spec.at("completions"), old.at("completions"));
    if !is_indexed(spec) {
        return completions.immutable(&was);
    }
    let changed = completions.is_set() && !completions.same(&was);
    if changed && completions.int() != spec.at("parallelism").int() {
        completions.invalid("can only be modified in tandem with spec.parallelism");
    }
}

/// Validates changes of the pod template: a suspended job without running pods may change its scheduling and resources.
fn pod_template(spec: Field, was: Field, old: Field) {
    let status = old.at("status");
    let suspended = was.at("suspend").bool();
    let quiet = status.at("startTime").is_absent()
        || job_status::is_true(status.at("conditions"), "Suspended");
    let free = suspended && quiet && status.at("active").int() == 0;
    let has = |feature| spec.capabilities().features.has(feature);
    let directives = if has(Feature::MutableSchedulingDirectivesForSuspendedJobs) {
        free
    } else {
        suspended && status.at("startTime").is_absent()
    };
    let resources = has(Feature::MutablePodResourcesForSuspendedJobs) && free;
    let (template, was) = (spec.at("template"), was.at("template"));
    let (Some(new), Some(before)) = (template.get(), was.get()) else { return };
    let mut before = before.clone();
    if directives {
        for path in [
            &["spec", "affinity", "nodeAffinity"][..],
            &["spec", "nodeSelector"],
            &["spec", "tolerations"],
            &["metadata", "annotations"],
            &["metadata", "labels"],
            &["spec", "schedulingGates"],
        ] {
            copy(new, &mut before, path);
        }
    }
    if !resources {
        if !equivalent(Some(new), Some(&before)) {
            template.invalid(crate::validation::IMMUTABLE);
        }
        return;
    }
    for list in ["containers", "initContainers"] {
        copy_resources(new, &mut before, list);
    }
    let called = spec.at("template.spec");
    if !equivalent(new.at(&["spec"]), before.at(&["spec"])) {
        called.with(new.at(&["spec"])).invalid(crate::validation::IMMUTABLE);
    }
}

/// Copies the value at a path from one object to another.
fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let [inner @ .., last] = path else { return };
    let value = from.at(path).cloned();
    let Some(map) = to.as_map_mut().map(|map| below(map, inner)) else { return };
    match value {
        Some(value) => map.insert(*last, value),
        None => map.remove(last),
    };
}

fn copy_resources(from: &Value, to: &mut Value, list: &str) {
    let new = from.at(&["spec", list]).and_then(Value::as_list).unwrap_or_default();
    let old = to.at_mut(&["spec", list]).and_then(Value::as_list_mut);
    let Some(old) = old.filter(|old| old.len() == new.len()) else { return };
    for (old, new) in old.iter_mut().zip(new) {
        if old.str_at(&["name"]) == new.str_at(&["name"]) {
            copy(new, old, &["resources"]);
        }
    }
}
