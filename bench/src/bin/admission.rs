//! Cost of admission plug-ins for a new pod: `cargo run --profile dist -p kevel-bench --bin admission`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use kevel_admission::cel::MatchConditionMetrics;
use kevel_admission::manifest::ManifestMetrics;
use kevel_admission::predicates::Matcher;
use kevel_admission::webhook::WebhookMetrics;
use kevel_admission_plugins::{Context, TolerationSeconds, plugins};
use kevel_api::value::Value;
use kevel_api::{builtin, default};
use kevel_bench::cpu_time;
use kevel_codec::json::{self, Unknown};
use kevel_controller_runtime::{Client, Loopback};
use kevel_controlplane::{RowsConfig, StorageOptions, rows, storages};
use kevel_registry::admission::{Admission, Attributes, Operation, OperationOptions};
use kevel_registry::backends::{Backend, Backends};
use kevel_registry::resource::{Resources, Rows};
use kevel_registry::storage::Format;
use kevel_registry::user::User;
use kevel_registry::verb::Verb;
use kevel_registry::warnings::Warnings;
use kevel_server::audit::AuditContext;
use kevel_server::authorization::{AlwaysAllow, Authorizer};
use kevel_server::egress::EgressSelector;
use kevel_server::metrics::Metrics;
use kevel_store::Engine;
use kevel_store::cache::At;
use kevel_store::embedded::{Embedded, Options};

/// Plug-ins that run by default, in order.
const DEFAULT: [&str; 23] = [
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "ResourceQuota",
];

/// Webhook and policy plug-ins.
const BY_OTHERS: [&str; 4] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// The validations of a policy that matches.
const VALIDATIONS: &str = r#"
    {"expression":"object.spec.containers.all(c, has(c.image))"},
    {"expression":"object.spec.containers.all(c, !c.image.endsWith(':latest'))"},
    {"expression":"!has(object.spec.hostNetwork) || !object.spec.hostNetwork"},
    {"expression":"object.metadata.namespace != 'kube-system'"},
    {"expression":"size(object.spec.containers) < 20"}"#;

/// Objects of the cluster.
const OBJECTS: [(&str, &str, &str, &str); 4] = [
    ("", "namespaces", "default", r#"{"metadata":{"name":"default","labels":{"a":"b"}}}"#),
    (
        "",
        "serviceaccounts",
        "default/default",
        r#"{"metadata":{"name":"default","namespace":"default"}}"#,
    ),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        "system-node-critical",
        r#"{"metadata":{"name":"system-node-critical"},"value":2000001000}"#,
    ),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        "system-cluster-critical",
        r#"{"metadata":{"name":"system-cluster-critical"},"value":2000000000}"#,
    ),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), String> {
    let engine = Embedded::memory(Options::default()).map_err(|error| error.to_string())?;
    let engine: Arc<dyn Engine> = Arc::new(engine);
    let backends = Backends::new(Backend::new(engine, "/registry/"));
    let options = StorageOptions::new(Format::Json);
    let table = Arc::new(Resources::default());
    let storages = storages(|row| row.on, &options, &backends)?;
    table.install(rows(|row| row.on, &RowsConfig::new(&storages))?);
    let rows = table.current();
    fill(&rows).await?;
    let authorizer: Arc<dyn Authorizer> = Arc::new(AlwaysAllow);
    let metrics = Arc::new(Metrics::default());
    let context = Context {
        rows: &rows,
        authorizer: &authorizer,
        feature: &|_| true,
        emulation: kevel_features::BINARY,
        configuration: &|_| Ok(None),
        toleration_seconds: TolerationSeconds { not_ready: 300, unreachable: 300 },
        matcher: Arc::new(Matcher::new(storages.required("", "namespaces")?, vec![table.clone()])),
        tables: vec![table.clone()],
        client: Client::new(Arc::new(Loopback::default())),
        match_conditions: MatchConditionMetrics::new(&metrics),
        webhooks: WebhookMetrics::new(&metrics),
        manifests: ManifestMetrics::new(&metrics, "bench"),
        metrics: metrics.clone(),
        resolve: Arc::new(|_, name, _| Err(format!("there is no service {name}"))),
        egress: EgressSelector::default(),
        follow: &|_, follower| drop(tokio::spawn(follower)),
    };
    let schema = builtin::schema("", "v1", "Pod").ok_or("pods are built in")?;
    let pod = json::decode(include_bytes!("../pod.json"), schema, Unknown::Ignore);
    let mut pod = pod.map_err(|error| error.to_string())?.value;
    default::apply(&mut pod, schema);
    pod.make_map(&["metadata"]).insert("namespace", "default".into());
    pod.make_map(&["spec"]).insert("serviceAccountName", "default".into());
    println!("{:36} {:>9.2} µs", "a copy of the pod", micros(copies(&pod)));
    for name in DEFAULT {
        let admission = Admission::new(plugins(&[name], &context)?);
        println!("{name:36} {:>9.2} µs", micros(cost(&admission, &rows, &pod).await?));
    }
    let admission = Admission::new(plugins(&DEFAULT, &context)?);
    println!("{:36} {:>9.2} µs", "all of them", micros(cost(&admission, &rows, &pod).await?));
    by_others(&Admission::new(plugins(&BY_OTHERS, &context)?), &rows, &pod).await
}

/// Measures webhooks and policies for a pod: none, many that do not match, and one with five validations.
async fn by_others(admission: &Admission, rows: &Rows, pod: &Value) -> Result<(), String> {
    let show = async |what: &str| -> Result<(), String> {
        let cost = micros(cost(admission, rows, pod).await?);
        println!("{what:36} {cost:>9.2} µs");
        Ok(())
    };
    follow_up().await;
    show("no webhook and no policy").await?;
    for number in 0..100 {
        policy(rows, &format!("other-{number}"), "configmaps").await?;
    }
    follow_up().await;
    show("100 policies of something else").await?;
    policy(rows, "pods", "pods").await?;
    follow_up().await;
    show("and one with five validations").await
}

/// Plug-ins follow what they go by: this is how long they may take to have heard of it.
async fn follow_up() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// A policy and its binding.
async fn policy(rows: &Rows, name: &str, resource: &str) -> Result<(), String> {
    let rule = format!(
        r#"{{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["{resource}"],"scope":"*"}}"#
    );
    let matched = format!(
        r#"{{"resourceRules":[{rule}],"matchPolicy":"Equivalent","namespaceSelector":{{}},"objectSelector":{{}}}}"#
    );
    let policy = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"failurePolicy":"Fail","matchConstraints":{matched},"validations":[{VALIDATIONS}]}}}}"#
    );
    let binding = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"policyName":"{name}","validationActions":["Deny"]}}}}"#
    );
    let group = "admissionregistration.k8s.io";
    store(rows, group, "validatingadmissionpolicies", name, &policy).await?;
    store(rows, group, "validatingadmissionpolicybindings", name, &binding).await
}

async fn fill(rows: &Rows) -> Result<(), String> {
    for (group, plural, key, text) in OBJECTS {
        store(rows, group, plural, key, text).await?;
    }
    Ok(())
}

async fn store(
    rows: &Rows,
    group: &str,
    plural: &str,
    key: &str,
    text: &str,
) -> Result<(), String> {
    let row = rows.get(group, "v1", plural).ok_or(plural)?;
    let storage = row.storage.as_ref().ok_or(plural)?;
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let value = json::decode(text.as_bytes(), storage.ty.schema(), Unknown::Ignore);
    let bytes = storage.encode(&value.map_err(|error| error.to_string())?.value);
    let created = storage.engine.create(&storage.key(namespace, name), bytes, None).await;
    created.map_err(|error| error.to_string())?;
    let read = storage.cache.snapshot(At::Consistent).await;
    read.map_err(|error| error.to_string())?;
    Ok(())
}

/// Duration of admitting and validating a new pod, without copying it first.
async fn cost(admission: &Admission, rows: &Rows, pod: &Value) -> Result<Duration, String> {
    let resource = rows.get("", "v1", "pods").ok_or("pods")?;
    let user = User { name: "admin".into(), ..User::default() };
    let (warnings, audit) = (Warnings::default(), AuditContext::default());
    let clock = kevel_clock::Clock::system();
    let attributes = Attributes {
        resource,
        subresource: "",
        operation: Operation::Create,
        verb: Verb::Create,
        namespace: "default",
        name: "web",
        user: &user,
        dry_run: false,
        warnings: &warnings,
        audit: &audit,
        old: None,
        options: OperationOptions::None,
        deadline: None,
        clock: &clock,
        trackers: None,
        reinvocation: None,
    };
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let start = cpu_time();
        for _ in 0..1000 {
            let mut pod = pod.clone();
            let admitted = admission.admit(&attributes, Some(&mut pod)).await;
            admitted.map_err(|error| error.to_string())?;
            let validated = admission.validate(&attributes, Some(&pod)).await;
            validated.map_err(|error| error.to_string())?;
            black_box(pod);
        }
        best = best.min((cpu_time() - start) / 1000);
    }
    Ok(best.saturating_sub(copies(pod)))
}

fn copies(pod: &Value) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let start = cpu_time();
        for _ in 0..1000 {
            black_box(pod.clone());
        }
        best = best.min((cpu_time() - start) / 1000);
    }
    best
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
