//! Rules of kinds as text: what is written, and what the reference says about it.
//!
//! ```text
//! # A line that begins so is a remark. Cases stand apart by empty lines.
//! at /api/v1/namespaces/ns/pods
//! object {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
//!
//! update
//!   was spec.activeDeadlineSeconds = 10
//!   spec.containers[0].image = ""
//!   ! spec.containers[0].image: Required value
//!   = spec.restartPolicy "Always"
//! ```
//!
//! The first lines of a file say where objects are created, and what they are unless a case changes
//! it. The first line of a case is `create`, `update` or a subresource that is updated. `was` changes
//! the object that is there, other lines the one that is written over it (or the new one); `$NONE` is
//! no value at all. `!` is an error and `~` a warning, all of them in order; `=` is a field of what would
//! be stored.
//! Errors and fields are what the reference said: `conformance rules` asks it, and writes them down.
//! What it says twice stands there once, and uids are `UID`.

use std::fmt::Write as _;

use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any, encode_any};

/// The files with cases, below the sources of the control plane.
pub const FILES: &[&str] = &[
    "admissionregistration/cases/mutating_admission_policies.txt",
    "admissionregistration/cases/mutating_admission_policy_bindings.txt",
    "admissionregistration/cases/mutating_webhook_configurations.txt",
    "admissionregistration/cases/validating_admission_policies.txt",
    "admissionregistration/cases/validating_admission_policy_bindings.txt",
    "admissionregistration/cases/validating_webhook_configurations.txt",
    "apps/cases/controller_revisions.txt",
    "apps/cases/daemon_sets.txt",
    "apps/cases/deployments.txt",
    "apps/cases/replica_sets.txt",
    "apps/cases/replication_controllers.txt",
    "apps/cases/stateful_sets.txt",
    "autoscaling/cases/horizontal_pod_autoscalers.txt",
    "autoscaling/cases/horizontal_pod_autoscalers_v1.txt",
    "batch/cases/cron_jobs.txt",
    "batch/cases/jobs.txt",
    "coordination/cases/leases.txt",
    "csi/cases/drivers.txt",
    "csi/cases/nodes.txt",
    "csi/cases/storage_capacities.txt",
    "flowcontrol/cases/flow_schemas.txt",
    "flowcontrol/cases/priority_level_configurations.txt",
    "persistent_volume/cases/persistent_volumes.txt",
    "persistent_volume_claim/cases/persistent_volume_claims.txt",
    "pod/cases/pods.txt",
    "priority_class/cases/priority_classes.txt",
    "resource/cases/device_classes.txt",
    "resource/cases/resource_claim_templates.txt",
    "resource/cases/resource_claims.txt",
    "resource/cases/resource_claims_status.txt",
    "resource/cases/resource_slices.txt",
    "runtime_class/cases/runtime_classes.txt",
    "service/cases/services.txt",
    "storage_class/cases/storage_classes.txt",
    "volume_attachment/cases/volume_attachments.txt",
];

/// The same of kinds and fields that are there only when asked for: of servers with all versions of all
/// groups and [`GATES`].
pub const GATED_FILES: &[&str] = &[
    "admissionregistration/cases/mutating_admission_policies_v1alpha1.txt",
    "admissionregistration/cases/mutating_admission_policies_v1beta1.txt",
    "admissionregistration/cases/mutating_admission_policy_bindings_v1alpha1.txt",
    "admissionregistration/cases/mutating_admission_policy_bindings_v1beta1.txt",
    "autoscaling/cases/to_zero.txt",
    "coordination/cases/lease_candidates.txt",
    "coordination/cases/lease_candidates_v1alpha2.txt",
    "coordination/cases/leases_elected.txt",
    "csi/cases/drivers_scaled.txt",
    "resource/cases/device_taint_rules.txt",
    "resource/cases/device_taint_rules_v1alpha3.txt",
    "resource/cases/resource_claim_templates_v1beta1.txt",
    "resource/cases/resource_claims_gated.txt",
    "resource/cases/resource_claims_v1beta1.txt",
    "resource/cases/resource_pool_status_requests.txt",
    "resource/cases/resource_slices_gated.txt",
    "resource/cases/resource_slices_v1beta1.txt",
    "scheduling/cases/pod_groups.txt",
    "scheduling/cases/workloads.txt",
    "storage_version/cases/storage_version_migrations.txt",
    "storage_version/cases/storage_versions.txt",
];

/// The feature gates that [`GATED_FILES`] are about, and those that they need.
pub const GATES: &[&str] = &[
    "CoordinatedLeaderElection",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAWorkloadResourceClaims",
    "GangScheduling",
    "GenericWorkload",
    "HPAScaleToZero",
    "StorageVersionMigrator",
    "TopologyAwareWorkloadScheduling",
    "VolumeLimitScaling",
    "WorkloadAwarePreemption",
];

/// The cases of a file.
pub struct Cases<'t> {
    /// Collection in which objects are created.
    path: &'t str,
    object: Value,
    /// Lines before the first case.
    head: &'t str,
    pub cases: Vec<Case<'t>>,
}

/// A written object, and its expected errors and warnings.
pub struct Case<'t> {
    pub text: &'t str,
    operation: &'t str,
    lines: Vec<&'t str>,
    pub expected: Outcome,
}

/// Result of a write.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// Field errors.
    pub errors: Vec<String>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// The fields of what would be stored that a case asks for, as JSON.
    fields: Vec<String>,
}

/// Server that the cases are run against.
pub trait Server {
    async fn send(&self, method: &str, path: &str, body: &Value) -> Answer;
}

/// An answer: its code, what it warns of, and its body.
pub struct Answer {
    pub code: u16,
    pub warnings: Vec<String>,
    pub body: Value,
}

impl<'t> Cases<'t> {
    /// Reads a file.
    pub fn read(text: &'t str) -> Self {
        let (head, rest) = text.split_once("\n\n").unwrap();
        let word = |word| head.lines().find_map(|line| line.strip_prefix(word)).unwrap();
        let blocks = rest.split("\n\n").map(|block| block.trim_matches('\n'));
        let cases: Vec<Case> = blocks.filter_map(Case::read).collect();
        assert!(!cases.is_empty(), "no cases");
        Cases { path: word("at "), object: value(word("object ")), head, cases }
    }

    /// Asks a server about one of the cases, by its number: objects of different cases have different
    /// names.
    pub async fn play(&self, number: usize, server: &impl Server) -> Outcome {
        let case = &self.cases[number];
        let mut object = self.object.clone();
        let name = format!("{}-{number}", object.str_at(&["metadata", "name"]));
        object.make_map(&["metadata"]).insert("name", name.as_str().into());
        let answer = match case.operation {
            "create" => {
                case.changes().for_each(|line| set(&mut object, line));
                server.send("POST", &format!("{}?dryRun=All", self.path), &object).await
            }
            operation => {
                let mut object = self.create(object, case, &name, server).await;
                case.changes().for_each(|line| set(&mut object, line));
                let sub = if operation == "update" { "" } else { &format!("/{operation}") };
                let path = format!("{}/{name}{sub}?dryRun=All", self.path);
                server.send("PUT", &path, &object).await
            }
        };
        case.outcome(answer)
    }

    /// Makes the object that is there before a case changes it.
    async fn create(
        &self,
        mut object: Value,
        case: &Case<'_>,
        name: &str,
        server: &impl Server,
    ) -> Value {
        let was = || case.lines.iter().filter_map(|line| line.strip_prefix("was "));
        was().for_each(|line| set(&mut object, line));
        let Answer { code, body: mut there, .. } = server.send("POST", self.path, &object).await;
        assert_eq!(code, 201, "{}\n{}", case.text, json(Some(&there)));
        if was().any(|line| line.starts_with("status")) {
            was().for_each(|line| set(&mut there, line));
            let path = format!("{}/{name}/status", self.path);
            let Answer { code, body, .. } = server.send("PUT", &path, &there).await;
            assert_eq!(code, 200, "{}\n{}", case.text, json(Some(&body)));
            there = body;
        }
        there
    }

    /// The file, with these outcomes in the place of what it says.
    pub fn record<'o>(&self, outcomes: impl IntoIterator<Item = &'o Outcome>) -> String {
        let mut text = format!("{}\n", self.head);
        for (case, outcome) in self.cases.iter().zip(outcomes) {
            text.push('\n');
            let mut fields = outcome.fields.iter();
            let said = |line: &&str| !line.trim_start().starts_with(['!', '~']);
            for line in case.text.lines().filter(said) {
                match line.trim_start().strip_prefix("= ") {
                    Some(field) => {
                        let path = field.split(' ').next().unwrap_or_default();
                        let value = fields.next().map_or("", String::as_str);
                        writeln!(text, "  = {path} {value}").unwrap();
                    }
                    None => writeln!(text, "{line}").unwrap(),
                }
            }
            outcome.errors.iter().for_each(|error| writeln!(text, "  ! {error}").unwrap());
            outcome.warnings.iter().for_each(|about| writeln!(text, "  ~ {about}").unwrap());
        }
        text
    }
}

impl<'t> Case<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let mut lines = lines.filter(|line| !line.is_empty());
        let operation = lines.next()?;
        let lines: Vec<&str> = lines.collect();
        let errors = lines.iter().filter_map(|line| line.strip_prefix("! "));
        let warnings = lines.iter().filter_map(|line| line.strip_prefix("~ "));
        let fields = lines.iter().filter_map(|line| line.strip_prefix("= "));
        let values = fields.map(|field| field.split_once(' ').map_or("", |(_, value)| value));
        let expected = Outcome {
            errors: errors.map(str::to_owned).collect(),
            warnings: warnings.map(str::to_owned).collect(),
            fields: values.map(str::to_owned).collect(),
        };
        Some(Case { text, operation, lines, expected })
    }

    /// The lines that change what is written.
    fn changes(&self) -> impl Iterator<Item = &'t str> {
        let others = ["was ", "! ", "~ ", "= "];
        let lines = self.lines.iter().copied();
        lines.filter(move |line| !others.iter().any(|begin| line.starts_with(begin)))
    }

    fn outcome(&self, Answer { code, warnings, body }: Answer) -> Outcome {
        let fields = self.lines.iter().filter_map(|line| line.strip_prefix("= "));
        let fields = fields.map(|field| {
            let path = field.split(' ').next().unwrap_or_default();
            place(&body, path).map_or("$NONE".to_owned(), |found| without_uids(&json(Some(found))))
        });
        Outcome { errors: errors(code, &body), warnings, fields: fields.collect() }
    }
}

/// Field errors of a response.
fn errors(code: u16, answer: &Value) -> Vec<String> {
    if code < 400 {
        return Vec::new();
    }
    // Some go on for several lines.
    let line = |text: &str| without_uids(text.replace('\n', "\\n").trim_end());
    let mut errors = Vec::new();
    for cause in answer.list_at(&["details", "causes"]) {
        let (field, message) = (cause.str_at(&["field"]), cause.str_at(&["message"]));
        let error = line(&format!("{field}: {message}"));
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    if errors.is_empty() {
        errors.push(line(answer.str_at(&["message"])));
    }
    errors
}

/// A text in which all that is written as a uid is the same.
pub fn without_uids(text: &str) -> String {
    const LENGTH: usize = 36;
    let (mut rest, mut masked) = (text, String::new());
    while let Some(first) = rest.chars().next() {
        let uid = rest.get(..LENGTH).filter(|text| is_uid(text));
        masked.push_str(if uid.is_some() { "UID" } else { &rest[..first.len_utf8()] });
        rest = &rest[if uid.is_some() { LENGTH } else { first.len_utf8() }..];
    }
    masked
}

fn is_uid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12] && parts.concat().bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `spec.containers[0].image = "i"`
fn set(object: &mut Value, line: &str) {
    let (path, new) = line.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
    let (mut at, mut steps) = (object, steps(path).peekable());
    while let Some(step) = steps.next() {
        let last = steps.peek().is_none();
        match (step, last) {
            (Step::Field(name), true) if new == "$NONE" => {
                at.make_map(&[]).remove(name);
                return;
            }
            (Step::Field(name), true) => {
                at.make_map(&[]).insert(name, value(new));
                return;
            }
            (Step::Field(name), false) => {
                at = at.make_map(&[]).entry_or_insert_with(name, || Value::Null);
            }
            (Step::Item(index), last) => {
                let list = at.as_list_mut().unwrap_or_else(|| panic!("{line}"));
                at = &mut list[index];
                if last {
                    *at = value(new);
                }
            }
        }
    }
}

/// Value at a path.
fn place<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    steps(path).try_fold(object, |value, step| match step {
        Step::Field(name) => value.as_map()?.get(name),
        Step::Item(index) => value.as_list()?.get(index),
    })
}

enum Step<'p> {
    Field(&'p str),
    Item(usize),
}

/// `spec.containers[0].image` as steps.
fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split(['.', '[']).map(|word| match word.strip_suffix(']') {
        Some(index) => Step::Item(index.parse().unwrap()),
        None => Step::Field(word),
    })
}

fn value(text: &str) -> Value {
    let decoded = decode_any(text.as_bytes(), Unknown::Report);
    decoded.unwrap_or_else(|error| panic!("{text}: {error}")).value
}

fn json(value: Option<&Value>) -> String {
    let mut text = Vec::new();
    value.into_iter().for_each(|value| encode_any(value, &mut text));
    String::from_utf8(text).unwrap()
}
