//! Tests of predicates: text tables of requests and match criteria, after the rules of the reference's tests and
//! documentation.

mod exempt;

use std::collections::BTreeMap;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_codec::json::Unknown;
use kevel_codec::yaml;
use kevel_registry::admission::{Operation, OperationOptions};
use kevel_registry::columns::NameAndCreation;
use kevel_registry::resource::{Conventions, Subresource, SubresourceKind};
use kevel_registry::storage::{Format, StorageConfig};
use kevel_registry::strategy::Generic;
use kevel_registry::type_ref::TypeRef;
use kevel_registry::user::User;
use kevel_registry::verb::Verb;
use kevel_registry::warnings::Warnings;
use kevel_server::audit::AuditContext;
use kevel_store::cache::Caches;
use kevel_store::embedded::{Embedded, Options};

use super::*;

/// Rows: version, plural, kind, storage prefix, subresources with their kinds.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static [Sub]);
type Sub = (&'static str, &'static str, &'static str);

const ROWS: &[Row] = &[
    (
        "v1",
        "pods",
        "Pod",
        "pods",
        &[("status", "v1", "Pod"), ("eviction", "policy/v1", "Eviction")],
    ),
    ("v1", "nodes", "Node", "minions", &[]),
    ("v1", "namespaces", "Namespace", "namespaces", &[("status", "v1", "Namespace")]),
    ("v1", "events", "Event", "events", &[]),
    ("events.k8s.io/v1", "events", "Event", "events", &[]),
    (
        "apps/v1",
        "deployments",
        "Deployment",
        "deployments",
        &[("scale", "autoscaling/v1", "Scale"), ("status", "apps/v1", "Deployment")],
    ),
    (
        "extensions/v1beta1",
        "deployments",
        "Deployment",
        "deployments",
        &[("scale", "extensions/v1beta1", "Scale")],
    ),
    ("authentication.k8s.io/v1", "tokenreviews", "TokenReview", "", &[]),
    (
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        VALIDATING_HOOKS,
        "validatingwebhookconfigurations",
        &[],
    ),
    ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", MUTATING_HOOKS, "", &[]),
    (
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
        VALIDATING_POLICY,
        "",
        &[("status", "admissionregistration.k8s.io/v1", VALIDATING_POLICY)],
    ),
    (
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        "",
        &[],
    ),
    (
        "admissionregistration.k8s.io/v1",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
        "",
        &[],
    ),
    (
        "admissionregistration.k8s.io/v1",
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
        "",
        &[],
    ),
    ("admissionregistration.k8s.io/v1", "others", "Other", "", &[]),
    ("example.com/v1", "validatingwebhookconfigurations", VALIDATING_HOOKS, "", &[]),
];

const VALIDATING_HOOKS: &str = "ValidatingWebhookConfiguration";
const MUTATING_HOOKS: &str = "MutatingWebhookConfiguration";
const VALIDATING_POLICY: &str = "ValidatingAdmissionPolicy";

const NAMESPACED: [&str; 3] = ["pods", "events", "deployments"];

pub(crate) struct World {
    pub(crate) matcher: Arc<Matcher>,
    pub(crate) rows: Arc<Resources>,
    _caches: Caches,
}

impl World {
    pub(crate) async fn new() -> Self {
        let engine = Arc::new(Embedded::memory(Options::default()).unwrap());
        let caches = Caches::start(engine.clone(), "/registry/");
        let mut storages: BTreeMap<&str, Arc<Storage>> = BTreeMap::new();
        let rows = Resources::default();
        for (version, plural, kind, stored, subresources) in ROWS {
            let kind = GroupVersionKind::from_api_version_and_kind(version, kind);
            // Only the labels are read; the type does not matter otherwise.
            let ty = TypeRef::BuiltIn(builtin::schema("", "v1", "Namespace").unwrap());
            let config = || StorageConfig {
                prefix: format!("/registry/{stored}/"),
                kind: kind.clone(),
                ty: ty.clone(),
                format: Format::Json,
                keeps_empty: false,
                fields: Vec::new(),
                indexed: Vec::new(),
                time_to_live: None,
                form: None,
                conversion: None,
                registry: Default::default(),
            };
            let storage = (!stored.is_empty()).then(|| {
                let new = || Arc::new(Storage::new(config(), engine.clone(), &caches));
                storages.entry(stored).or_insert_with(new).clone()
            });
            let subresource = |(name, version, kind): &(&str, &str, &str)| {
                let kind = GroupVersionKind::from_api_version_and_kind(version, kind);
                let sub = Subresource {
                    kind,
                    verbs: Vec::new(),
                    ty: ty.clone(),
                    role: SubresourceKind::NotServed,
                };
                ((*name).to_owned(), sub)
            };
            rows.install([Resource {
                kind: kind.clone(),
                plural: (*plural).to_owned(),
                singular: String::new(),
                short_names: Vec::new(),
                categories: Vec::new(),
                namespaced: NAMESPACED.contains(plural),
                verbs: Vec::new(),
                ty: ty.clone(),
                strategy: Arc::new(Generic),
                allocation: None,
                columns: Arc::new(NameAndCreation),
                storage,
                creater: None,
                lister: None,
                subresources: subresources.iter().map(subresource).collect(),
                list_kind: String::new(),
                conventions: Conventions::typed(false),
            }]);
        }
        let namespaces = storages["namespaces"].clone();
        for (name, team) in [("a", "red"), ("b", "blue")] {
            let object = read(&format!("metadata: {{name: {name}, labels: {{team: {team}}}}}"));
            namespaces.insert(object).await.unwrap();
        }
        let rows = Arc::new(rows);
        let matcher = Arc::new(Matcher::new(namespaces, vec![rows.clone(), Arc::default()]));
        World { matcher, rows, _caches: caches }
    }

    /// Matches a request: `CREATE apps/v1 deployments/scale a/web`, optionally with its new and old labels.
    async fn ask(&self, criteria: &MatchCriteria, write: &str) -> String {
        self.with(write, async |subject, object| {
            let attributes = subject.attributes;
            match criteria.matches(subject, object).await {
                Err(error) => format!("{} {}", error.status().code, error.status().message),
                Ok(None) => "no".into(),
                Ok(Some(matched)) => {
                    let resource = matched.resource(attributes);
                    let (version, kind) = (resource.api_version(), matched.kind(attributes));
                    format!(
                        "{version} {} as {} {}",
                        resource.plural,
                        kind.group_version(),
                        kind.kind
                    )
                }
            }
        })
        .await
    }

    /// Result of `work` with a request and its object.
    pub(crate) async fn with<R>(
        &self,
        write: &str,
        work: impl AsyncFnOnce(&Subject<'_>, Option<&Value>) -> R,
    ) -> R {
        let (write, labels) = write.split_once(" with ").unwrap_or((write, ""));
        let (labels, old) = labels.split_once(" was ").unwrap_or((labels, ""));
        let words: Vec<&str> = write.split_whitespace().collect();
        let [operation, version, resource, place] = words[..] else { panic!("{write}") };
        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (namespace, name) = place.split_once('/').unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let row = self.rows.current().get(group, version, plural).unwrap().clone();
        let object = |labels: &str| {
            let labels = labels.replace('=', ": ");
            (!labels.is_empty()).then(|| read(&format!("metadata: {{labels: {{{labels}}}}}")))
        };
        let (object, old) = (object(labels), object(old));
        let attributes = Attributes {
            resource: &row,
            subresource,
            operation: Operation::parse(operation).unwrap(),
            verb: Verb::Create,
            namespace,
            name,
            user: &User::anonymous(),
            dry_run: false,
            warnings: &Warnings::default(),
            audit: &AuditContext::default(),
            old: old.as_ref(),
            options: OperationOptions::None,
            deadline: None,
            clock: &kevel_clock::Clock::system(),
            trackers: None,
            reinvocation: None,
        };
        let subject = self.matcher.subject(&attributes);
        work(&subject, object.as_ref()).await
    }

    /// Checks a table: criteria above their requests, which are indented, with the expected result behind an arrow.
    async fn check(&self, compile: impl Fn(&Value) -> MatchCriteria, table: &str) {
        let mut criteria = None;
        for line in table.lines().filter(|line| !line.trim().is_empty()) {
            match line.trim().split_once(" -> ") {
                None => criteria = Some(compile(&read(line.trim()))),
                Some((write, expected)) => {
                    let criteria = criteria.as_ref().expect("criteria come first");
                    assert_eq!(
                        self.ask(criteria, write.trim()).await,
                        expected,
                        "{line}\n{criteria:?}"
                    );
                }
            }
        }
    }
}

pub(crate) fn read(text: &str) -> Value {
    yaml::decode_any(text.as_bytes(), Unknown::Report).unwrap().value
}

/// A webhook that selects everything except as given.
fn webhook(value: &Value) -> MatchCriteria {
    MatchCriteria::of_webhook(&with_selectors(value))
}

fn policy(value: &Value) -> MatchCriteria {
    MatchCriteria::of_match_resources(&with_selectors(value))
}

fn with_selectors(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(map) = value.as_map_mut() {
        for field in ["namespaceSelector", "objectSelector"] {
            map.entry_or_insert_with(field, || Value::Map(Default::default()));
        }
    }
    value
}

#[tokio::test]
async fn rules() {
    let table = r#"
        {rules: [{operations: [CREATE, DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
            CREATE v1 pods a/x -> v1 pods as v1 Pod
            DELETE v1 pods a/x -> v1 pods as v1 Pod
            UPDATE v1 pods a/x -> no
            CONNECT v1 pods a/x -> no
            CREATE v1 pods/status a/x -> no
            CREATE v1 events a/x -> no
            CREATE apps/v1 deployments a/x -> no
        {rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}
            CONNECT v1 pods a/x -> v1 pods as v1 Pod
            UPDATE v1 nodes /x -> v1 nodes as v1 Node
            UPDATE v1 pods/status a/x -> no
        {rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]}
            UPDATE v1 pods a/x -> v1 pods as v1 Pod
            UPDATE v1 pods/status a/x -> v1 pods as v1 Pod
            CREATE v1 pods/eviction a/x -> v1 pods as policy/v1 Eviction
        {rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["pods/*"]}]}
            UPDATE v1 pods a/x -> v1 pods as v1 Pod
            UPDATE v1 pods/status a/x -> v1 pods as v1 Pod
            UPDATE v1 namespaces/status a/a -> no
        {rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/status"]}]}
            UPDATE v1 pods a/x -> no
            UPDATE v1 pods/status a/x -> v1 pods as v1 Pod
            UPDATE v1 namespaces/status a/a -> v1 namespaces as v1 Namespace
        {rules: [{operations: [], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]}
            UPDATE v1 pods a/x -> no
        {rules: []}
            UPDATE v1 pods a/x -> no
        {}
            UPDATE v1 pods a/x -> no
        {rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: Namespaced}]}
            UPDATE v1 pods a/x -> v1 pods as v1 Pod
            UPDATE v1 nodes /x -> no
            UPDATE v1 namespaces a/a -> no
            CREATE v1 namespaces /a -> no
        {rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: Cluster}]}
            UPDATE v1 pods a/x -> no
            UPDATE v1 nodes /x -> v1 nodes as v1 Node
            UPDATE v1 namespaces a/a -> v1 namespaces as v1 Namespace
        {rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: "*"}]}
            UPDATE v1 pods a/x -> v1 pods as v1 Pod
            UPDATE v1 nodes /x -> v1 nodes as v1 Node
        {rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: Galaxy}]}
            UPDATE v1 pods a/x -> no
        {rules: [{operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}, {operations: [UPDATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
            CREATE apps/v1 deployments a/x -> apps/v1 deployments as apps/v1 Deployment
            UPDATE v1 pods a/x -> v1 pods as v1 Pod
            CREATE v1 pods a/x -> no
    "#;
    World::new().await.check(webhook, table).await;
}

#[tokio::test]
async fn equivalent_versions() {
    let table = r#"
        {matchPolicy: Exact, rules: [{operations: ["*"], apiGroups: [apps], apiVersions: [v1], resources: ["deployments/*"]}]}
            CREATE apps/v1 deployments a/x -> apps/v1 deployments as apps/v1 Deployment
            CREATE extensions/v1beta1 deployments a/x -> no
        {rules: [{operations: ["*"], apiGroups: [apps], apiVersions: [v1], resources: ["deployments"]}]}
            CREATE extensions/v1beta1 deployments a/x -> no
        {matchPolicy: Equivalent, rules: [{operations: ["*"], apiGroups: [apps], apiVersions: [v1], resources: ["deployments/*"]}]}
            CREATE apps/v1 deployments a/x -> apps/v1 deployments as apps/v1 Deployment
            CREATE extensions/v1beta1 deployments a/x -> apps/v1 deployments as apps/v1 Deployment
            UPDATE extensions/v1beta1 deployments/scale a/x -> apps/v1 deployments as autoscaling/v1 Scale
            UPDATE apps/v1 deployments/status a/x -> apps/v1 deployments as apps/v1 Deployment
            CREATE v1 pods a/x -> no
        {matchPolicy: Equivalent, rules: [{operations: ["*"], apiGroups: [extensions], apiVersions: ["*"], resources: ["deployments/*"]}]}
            UPDATE apps/v1 deployments/scale a/x -> extensions/v1beta1 deployments as extensions/v1beta1 Scale
            UPDATE apps/v1 deployments/status a/x -> no
        {matchPolicy: Equivalent, rules: [{operations: [CREATE], apiGroups: ["events.k8s.io"], apiVersions: ["*"], resources: [events]}]}
            CREATE v1 events a/x -> events.k8s.io/v1 events as events.k8s.io/v1 Event
            UPDATE v1 events a/x -> no
        {matchPolicy: Equivalent, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: ["*"], resources: [events]}, {operations: ["*"], apiGroups: ["events.k8s.io"], apiVersions: ["*"], resources: [events]}]}
            CREATE events.k8s.io/v1 events a/x -> events.k8s.io/v1 events as events.k8s.io/v1 Event
            UPDATE v1 events a/x -> events.k8s.io/v1 events as events.k8s.io/v1 Event
        {matchPolicy: Equivalent, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: [v9], resources: ["*"]}]}
            CREATE authentication.k8s.io/v1 tokenreviews / -> no
    "#;
    World::new().await.check(webhook, table).await;
}

#[tokio::test]
async fn selectors() {
    let table = r#"
        {namespaceSelector: {matchLabels: {team: red}}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]}
            CREATE v1 pods a/x -> v1 pods as v1 Pod
            CREATE v1 pods b/x -> no
            CREATE v1 pods gone/x -> 404 namespaces "gone" not found
            CREATE v1 nodes /x -> v1 nodes as v1 Node
            CREATE v1 namespaces c/c with team=red -> v1 namespaces as v1 Namespace
            CREATE v1 namespaces c/c with team=blue -> no
            CREATE v1 namespaces / with team=red -> v1 namespaces as v1 Namespace
            UPDATE v1 namespaces a/a with team=blue was team=red -> no
            UPDATE v1 namespaces/status a/a with team=blue -> v1 namespaces as v1 Namespace
            DELETE v1 namespaces a/a -> v1 namespaces as v1 Namespace
            DELETE v1 namespaces b/b -> no
            DELETE v1 namespaces gone/gone -> 404 namespaces "gone" not found
        {namespaceSelector: {matchLabels: {team: red}}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: [events]}]}
            CREATE v1 pods gone/x -> no
        {namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [red]}]}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}
            CREATE v1 pods a/x -> no
            CREATE v1 pods b/x -> v1 pods as v1 Pod
        {objectSelector: {matchLabels: {app: web}}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}
            CREATE v1 pods a/x with app=web -> v1 pods as v1 Pod
            CREATE v1 pods a/x with app=db -> no
            UPDATE v1 pods a/x with app=db was app=web -> v1 pods as v1 Pod
            UPDATE v1 pods a/x with app=web was app=db -> v1 pods as v1 Pod
            DELETE v1 pods a/x with  was app=web -> v1 pods as v1 Pod
            DELETE v1 pods a/x -> no
            CREATE v1 nodes /x with app=web -> v1 nodes as v1 Node
        {objectSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}
            CREATE v1 pods a/x with tier=1 -> v1 pods as v1 Pod
            CONNECT v1 pods a/x with tier=1 -> no
            DELETE v1 pods a/x -> no
        {objectSelector: {matchLabels: {app: web}}, namespaceSelector: {matchLabels: {team: red}}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}
            CREATE v1 pods gone/x with app=db -> no
            CREATE v1 pods gone/x with app=web -> 404 namespaces "gone" not found
        {objectSelector: {matchExpressions: [{key: app, operator: Like}]}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: [pods]}]}
            CREATE v1 pods a/x -> 500 Internal error occurred: "Like" is not a valid label selector operator
            CREATE v1 nodes /x -> no
    "#;
    World::new().await.check(webhook, table).await;
    let absent = r#"
        {rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}
            CREATE v1 pods a/x -> no
    "#;
    World::new().await.check(MatchCriteria::of_webhook, absent).await;
}

#[tokio::test]
async fn resources_of_policies() {
    let table = r#"
        {}
            CREATE v1 pods a/x -> v1 pods as v1 Pod
            CONNECT v1 nodes /x -> v1 nodes as v1 Node
        {resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [pods], resourceNames: [x, y]}]}
            CREATE v1 pods a/x -> v1 pods as v1 Pod
            CREATE v1 pods a/z -> no
            CREATE v1 pods a/ -> no
        {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}], excludeResourceRules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
            CREATE v1 pods a/x -> v1 pods as v1 Pod
            DELETE v1 pods a/x -> no
        {matchPolicy: Equivalent, excludeResourceRules: [{operations: ["*"], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
            CREATE extensions/v1beta1 deployments a/x -> no
            UPDATE extensions/v1beta1 deployments/scale a/x -> extensions/v1beta1 deployments as extensions/v1beta1 Scale
        {matchPolicy: Equivalent, resourceRules: [{operations: ["*"], apiGroups: [apps], apiVersions: [v1], resources: [deployments], resourceNames: [x]}]}
            CREATE extensions/v1beta1 deployments a/x -> apps/v1 deployments as apps/v1 Deployment
            CREATE extensions/v1beta1 deployments a/y -> no
        {resourceRules: [], objectSelector: {matchLabels: {app: web}}}
            CREATE v1 pods a/x with app=web -> v1 pods as v1 Pod
            CREATE v1 pods a/x with app=db -> no
    "#;
    World::new().await.check(policy, table).await;
}

#[tokio::test]
async fn rows_that_come_later_are_known() {
    let world = World::new().await;
    let rule = "{matchPolicy: Equivalent, rules: [{operations: ['*'], apiGroups: [''], apiVersions: [v1], resources: [events]}]}";
    let criteria = webhook(&read(rule));
    let write = "CREATE events.k8s.io/v1 events a/x";
    assert_eq!(world.ask(&criteria, write).await, "v1 events as v1 Event");
    world.rows.remove("", "events", None);
    assert_eq!(world.ask(&criteria, write).await, "no");
}
