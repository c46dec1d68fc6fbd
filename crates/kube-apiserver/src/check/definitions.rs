//! CustomResourceDefinitions among the documents: installed, and waited for.

use std::time::Duration;

use kevel_api::value::Value;
use kevel_clock::monotonic_now;

use super::cluster::escaped;
use super::finding;
use super::order::decoded;
use super::run::{CheckRun, PlannedDocument, trees};

/// Kind of definitions.
pub const KIND: &str = "CustomResourceDefinition";

/// Fields of a definition with one version as messages name them, and as they are written.
const FIELDS_OF_ONE_VERSION: [(&str, &str); 3] = [
    ("spec.validation", "spec.versions[0].schema"),
    ("spec.subresources", "spec.versions[0].subresources"),
    ("spec.additionalPrinterColumns", "spec.versions[0].additionalPrinterColumns"),
];

/// The field of a definition that a message means.
pub fn written_field(field: &str) -> String {
    let row = FIELDS_OF_ONE_VERSION.iter().find_map(|(named, written)| {
        let rest = field.strip_prefix(named)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then(|| format!("{written}{rest}"))
    });
    row.unwrap_or_else(|| field.to_owned())
}

/// Longest wait for a definition, which takes milliseconds.
const ESTABLISHED_WAIT: Duration = Duration::from_secs(10);
/// Time between two looks at a definition.
const POLL: Duration = Duration::from_millis(1);

/// Conditions that keep a definition from being served, and the status that says so.
const REFUSED: [(&str, &str); 3] = [
    ("NamesAccepted", "False"),
    ("NonStructuralSchema", "True"),
    ("KubernetesAPIApprovalPolicyConformant", "False"),
];

/// Installs a definition. One whose objects are converted by a webhook is checked as it is, and installed without the
/// webhook: nothing outside of the process is called.
pub async fn install(run: &mut CheckRun<'_>, planned: PlannedDocument<'_>) {
    let conversion = ["spec", "conversion", "strategy"];
    let tree = decoded(planned.document);
    let Some(mut tree) = tree.filter(|tree| tree.str_at(&conversion) == "Webhook") else {
        run.document(planned, false).await;
        return;
    };
    run.report.not_called.conversions += 1;
    let document = planned.document;
    let resource = run.cluster.resource(&document.api_version, &document.kind);
    if run.document(planned, true).await.is_none() {
        return;
    }
    if let Some(spec) = tree.at_mut(&["spec"]).and_then(Value::as_map_mut) {
        spec.remove("conversion");
    }
    if let Some(resource) = resource {
        run.store(&resource, &tree).await;
    }
}

/// Waits until the kinds of definitions are served, and notes those that never will be.
pub async fn establish(run: &mut CheckRun<'_>, planned: &[PlannedDocument<'_>]) {
    for (one, tree) in trees(planned) {
        let (reason, message) = match served(run, &tree).await {
            Establishment::Done | Establishment::Absent => continue,
            Establishment::Refused { reason, message } => (reason, message),
            Establishment::Pending => ("NotEstablished".to_owned(), "not established".to_owned()),
        };
        let name = &one.document.name;
        let message = format!("CustomResourceDefinition {name:?} is not served: {message}");
        let finding = finding::of_field(one.document, "", (&reason, "spec.names"), message);
        run.report.add(vec![finding]);
    }
}

enum Establishment {
    /// The kinds are served.
    Done,
    /// The definition was not taken.
    Absent,
    /// The kinds will not be served.
    Refused { reason: String, message: String },
    /// Nothing was heard in time.
    Pending,
}

async fn served(run: &CheckRun<'_>, tree: &Value) -> Establishment {
    let name = escaped(tree.str_at(&["metadata", "name"]));
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let (group, kind) = (tree.str_at(&["spec", "group"]), tree.str_at(&["spec", "names", "kind"]));
    let versions = tree.list_at(&["spec", "versions"]).iter();
    let versions = versions.filter(|version| version.at(&["served"]) == Some(&Value::Bool(true)));
    let versions: Vec<String> =
        versions.map(|version| format!("{group}/{}", version.str_at(&["name"]))).collect();
    let deadline = monotonic_now() + ESTABLISHED_WAIT;
    while monotonic_now() < deadline {
        let Ok(definition) = run.cluster.get(&path).await else { return Establishment::Absent };
        let conditions = definition.list_at(&["status", "conditions"]);
        let is = |condition: &Value, (name, status): (&str, &str)| {
            condition.str_at(&["type"]) == name && condition.str_at(&["status"]) == status
        };
        let refused = |condition: &&Value| REFUSED.iter().any(|wanted| is(condition, *wanted));
        if let Some(condition) = conditions.iter().find(refused) {
            let text = |field| condition.str_at(&[field]).to_owned();
            return Establishment::Refused { reason: text("reason"), message: text("message") };
        }
        let established = conditions.iter().any(|condition| is(condition, ("Established", "True")));
        let has_rows =
            || versions.iter().all(|version| run.cluster.resource(version, kind).is_some());
        if established && has_rows() {
            return Establishment::Done;
        }
        tokio::time::sleep(POLL).await;
    }
    Establishment::Pending
}
