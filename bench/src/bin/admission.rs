//! What the admission plug-ins cost a new pod: `cargo run --profile dist -p kevel-bench --bin admission`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::Value;
use kevel_api::{builtin, default};
use kevel_bench::cpu_time;
use kevel_codec::json::{self, Unknown};
use kevel_controlplane::admission::{Context, TolerationSeconds, plugins};
use kevel_controlplane::{RowsConfig, StorageOptions, rows, storages};
use kevel_server::admission::{Admission, Attributes, Operation};
use kevel_server::audit::AuditContext;
use kevel_server::authorization::{AlwaysAllow, Authorizer};
use kevel_server::controller::{Client, Loopback};
use kevel_server::request::Warnings;
use kevel_server::resource::{Resources, Rows};
use kevel_server::storage::Format;
use kevel_server::user::User;
use kevel_server::verb::Verb;
use kevel_store::Engine;
use kevel_store::cache::{At, Caches};
use kevel_store::embedded::{Embedded, Options};

/// What runs unless asked, in order.
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

/// What there is in the cluster.
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
    let caches = Caches::start(engine.clone(), "/registry/");
    let options = StorageOptions { prefix: "/registry".into(), format: Format::Json };
    let table = Arc::new(Resources::default());
    let storages = storages(|row| row.on, &options, &engine, &caches)?;
    table.install(rows(|row| row.on, &RowsConfig::new(&storages))?);
    let rows = table.current();
    fill(&rows).await?;
    let authorizer: Arc<dyn Authorizer> = Arc::new(AlwaysAllow);
    let context = Context {
        rows: &rows,
        authorizer: &authorizer,
        feature: &|_| true,
        configuration: &|_| Ok(None),
        toleration_seconds: TolerationSeconds { not_ready: 300, unreachable: 300 },
        tables: vec![table.clone()],
        client: Client::new(Arc::new(Loopback::default())),
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
    Ok(())
}

async fn fill(rows: &Rows) -> Result<(), String> {
    for (group, plural, key, text) in OBJECTS {
        let row = rows.get(group, "v1", plural).ok_or(plural)?;
        let storage = row.storage.as_ref().ok_or(plural)?;
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let value = json::decode(text.as_bytes(), storage.ty.schema(), Unknown::Ignore);
        let bytes = storage.encode(&value.map_err(|error| error.to_string())?.value);
        let created = storage.engine.create(&storage.key(namespace, name), bytes, None).await;
        created.map_err(|error| error.to_string())?;
        let read = storage.cache.snapshot(At::Consistent).await;
        read.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What it costs to admit and to validate a new pod, without copying it first.
async fn cost(admission: &Admission, rows: &Rows, pod: &Value) -> Result<Duration, String> {
    let resource = rows.get("", "v1", "pods").ok_or("pods")?;
    let user = User { name: "admin".into(), ..User::default() };
    let (warnings, audit) = (Warnings::default(), AuditContext::default());
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
