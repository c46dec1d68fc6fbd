//! A check: documents are installed in a cluster of their own, step by step.

use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use http::Method;
use kevel_api::quote::quote;
use kevel_api::status::reason;
use kevel_api::value::{Map, Value};
use kevel_registry::resource::Resource;
use kevel_server::request::json_text;

use super::arguments::CheckArguments;
use super::cluster::{
    CheckCluster, CheckRequest, CheckResponse, FIELD_MANAGER, collection_path, escaped, list_path,
};
use super::document::{CheckedDocument, InputDocuments};
use super::order::{InstallStep, ParameterKinds, RemoteKind, decoded, remote};
use super::report::FindingReport;
use super::{definitions, finding, policies};

/// Media type of patches that apply a configuration.
const APPLY: &str = "application/apply-patch+yaml";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// Namespace of documents that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// A check under way.
pub struct CheckRun<'a> {
    /// Cluster of the documents.
    pub cluster: &'a CheckCluster,
    /// Findings so far.
    pub report: FindingReport,
    arguments: &'a CheckArguments,
    /// Messages about each document, so that one that is checked twice says nothing twice.
    told: HashMap<usize, HashSet<String>>,
}

/// A document, with its index and step.
#[derive(Clone, Copy)]
pub struct PlannedDocument<'d> {
    /// Index among all documents.
    pub at: usize,
    /// Step of the installation.
    pub step: InstallStep,
    /// The document.
    pub document: &'d CheckedDocument,
}

/// Checks documents; `given` are those that are installed before, of which only definitions count.
pub async fn check(
    cluster: &CheckCluster,
    arguments: &CheckArguments,
    given: InputDocuments,
    checked: InputDocuments,
) -> FindingReport {
    let mut documents = given.objects;
    documents.retain(|document| document.kind == definitions::KIND);
    let report = FindingReport { documents: checked.objects.len(), ..FindingReport::default() };
    documents.extend(checked.objects);
    let mut run = CheckRun { cluster, report, arguments, told: HashMap::new() };
    run.report.add(given.findings);
    run.report.add(checked.findings);
    run.install(&documents).await;
    run.report
}

impl CheckRun<'_> {
    async fn install(&mut self, documents: &[CheckedDocument]) {
        let parameters = ParameterKinds::of(documents);
        let plan =
            |(at, document)| PlannedDocument { at, step: parameters.step(document), document };
        let mut planned: Vec<PlannedDocument<'_>> =
            documents.iter().enumerate().map(plan).collect();
        planned.retain(|one| !self.is_skipped(one.document));
        self.report.skipped = documents.len() - planned.len();
        planned.sort_by_key(|one| one.step);
        let namespaces = planned.partition_point(|one| one.step == InstallStep::Namespaces);
        let (namespaces, rest) = planned.split_at(namespaces);
        self.documents(namespaces).await;
        self.settle(namespaces).await;
        self.make_namespaces(documents).await;
        let mut installed = namespaces.len();
        for group in rest.chunk_by(|one, other| one.step == other.step) {
            self.documents(group).await;
            if group.first().is_some_and(|one| one.step != InstallStep::Rest) {
                self.settle(group).await;
            }
            installed += group.len();
            match group.first().map(|one| one.step) {
                Some(InstallStep::Definitions) => definitions::establish(self, group).await,
                Some(InstallStep::Bindings) => {
                    policies::wait(self, &planned).await;
                    // What is there already has been seen by no policy.
                    for one in planned.iter().take(installed) {
                        self.document(*one, true).await;
                    }
                }
                _ => {}
            }
        }
    }

    /// Waits until admission sees the objects of a step: a list without a resourceVersion waits for the cache.
    async fn settle(&self, planned: &[PlannedDocument<'_>]) {
        let mut seen = BTreeSet::new();
        for PlannedDocument { document, .. } in planned {
            let kind = (document.api_version.as_str(), document.kind.as_str());
            if seen.insert(kind)
                && let Some(resource) = self.cluster.resource(kind.0, kind.1)
            {
                let _ = self.cluster.get(&list_path(&resource)).await;
            }
        }
    }

    async fn documents(&mut self, planned: &[PlannedDocument<'_>]) {
        for one in planned {
            match one.step {
                InstallStep::Definitions => definitions::install(self, *one).await,
                _ => drop(self.document(*one, false).await),
            }
        }
    }

    fn is_skipped(&self, document: &CheckedDocument) -> bool {
        let CheckedDocument { api_version, kind, .. } = document;
        let is_it = |skipped: &String| match skipped.rsplit_once('/') {
            Some((version, of)) => version == api_version && of == kind,
            None => skipped == kind,
        };
        self.arguments.skipped.iter().any(is_it)
    }

    /// Makes the namespaces that no document makes, and in each the ServiceAccount that a controller would make.
    async fn make_namespaces(&mut self, documents: &[CheckedDocument]) {
        let used = documents.iter().map(|document| document.namespace.as_str());
        let mut names: BTreeSet<&str> = used.filter(|name| !name.is_empty()).collect();
        names.insert(self.namespace());
        let made = documents.iter().filter(|one| one.kind == "Namespace");
        names.extend(made.map(|document| document.name.as_str()));
        for name in names {
            // One that exists, or cannot: the documents in it show why.
            let _ = self.cluster.create("/api/v1/namespaces", &named(name)).await;
            let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", escaped(name));
            let _ = self.cluster.create(&accounts, &named("default")).await;
        }
    }

    /// Namespace of documents that name none.
    pub fn namespace(&self) -> &str {
        self.arguments.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }

    /// Creates an object, or applies it to one of its name. Nothing is stored in a dry run, nor are kinds that a cluster
    /// would call others for. Returns the object, if it is taken.
    pub async fn document(&mut self, planned: PlannedDocument<'_>, dry_run: bool) -> Option<Value> {
        let document = planned.document;
        let Some(resource) = self.cluster.resource(&document.api_version, &document.kind) else {
            self.missing(planned);
            return None;
        };
        let remote = remote(document).filter(|_| !dry_run);
        match remote {
            Some(RemoteKind::Webhook) => self.report.not_called.webhooks += 1,
            Some(RemoteKind::Service) => self.report.not_called.services += 1,
            None => {}
        }
        let not_stored = dry_run || remote.is_some();
        let namespace = self.namespace_of(&resource, document);
        let collection = collection_path(&resource, &namespace);
        let query = self.query(not_stored);
        let path = format!("{collection}?fieldManager={FIELD_MANAGER}{query}");
        let created = self.send(Method::POST, &path, document.media_type, &document.body).await;
        let exists = |response: &CheckResponse| {
            response.result.as_ref().is_err_and(|status| &*status.reason == reason::ALREADY_EXISTS)
        };
        let response = match exists(&created) {
            true if dry_run => return None,
            true => {
                let name = escaped(&document.name);
                let path = format!("{collection}/{name}?force=true&fieldManager=kubectl{query}");
                self.send(Method::PATCH, &path, APPLY, &document.body).await
            }
            // A dry run asks the rules before addresses and ports are taken, and says other words about those.
            false if created.result.is_err() && !not_stored => {
                let path = format!("{path}&dryRun=All");
                let tried =
                    self.send(Method::POST, &path, document.media_type, &document.body).await;
                if tried.result.is_err() { tried } else { created }
            }
            false => created,
        };
        let object = self.record(planned, &namespace, response);
        if resource.plural == "resourcequotas"
            && let Some(quota) = object.as_ref().filter(|_| !not_stored)
        {
            self.start_quota(&collection, quota).await;
        }
        object
    }

    /// Namespace of a document; empty for objects of the cluster.
    fn namespace_of(&self, resource: &Resource, document: &CheckedDocument) -> String {
        match (resource.namespaced, document.namespace.as_str()) {
            (false, _) => String::new(),
            (true, "") => self.namespace().to_owned(),
            (true, namespace) => namespace.to_owned(),
        }
    }

    fn query(&self, dry_run: bool) -> String {
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        format!("&fieldValidation={}{dry_run}", self.arguments.validate.parameter())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        media_type: &'static str,
        body: &Bytes,
    ) -> CheckResponse {
        self.cluster.send(CheckRequest { method, path, body: body.clone(), media_type }).await
    }

    /// Checks another form of a document, without a word.
    pub async fn store(&self, resource: &Resource, object: &Value) {
        let _ = self.cluster.create(&collection_path(resource, ""), object).await;
    }

    fn record(
        &mut self,
        PlannedDocument { at, document, .. }: PlannedDocument<'_>,
        namespace: &str,
        response: CheckResponse,
    ) -> Option<Value> {
        let told = self.told.entry(at).or_default();
        let warnings = response.warnings.into_iter();
        let mut findings: Vec<_> =
            warnings.map(|warning| finding::of_warning(document, namespace, warning)).collect();
        let object = match response.result {
            Ok(object) => Some(object),
            Err(status) => {
                findings.extend(finding::of_status(document, namespace, &status));
                None
            }
        };
        findings.retain(|finding| told.insert(finding.message.clone()));
        self.report.add(findings);
        object
    }

    /// Notes a document of a kind that the cluster does not have, in the words of kubectl.
    fn missing(&mut self, PlannedDocument { at, document, .. }: PlannedDocument<'_>) {
        if !self.told.entry(at).or_default().insert(String::new()) {
            return;
        }
        if self.arguments.ignore_missing {
            self.report.without_schema += 1;
            return;
        }
        let CheckedDocument { api_version, kind, name, namespace, place, .. } = document;
        let [quoted_name, quoted_namespace, file, quoted_kind, version] =
            [name, namespace, &*place.file, kind, api_version].map(quote);
        let message = format!(
            "resource mapping not found for name: {quoted_name} namespace: {quoted_namespace} from \
             {file}: no matches for kind {quoted_kind} in version {version}\nensure CRDs are \
             installed first"
        );
        let finding = finding::of_field(document, namespace, ("NoMatch", "kind"), message);
        self.report.add(vec![finding]);
    }

    /// Begins to count by a quota, as its controller does.
    async fn start_quota(&self, collection: &str, quota: &Value) {
        let Some(hard) = quota.at(&["spec", "hard"]).and_then(Value::as_map) else { return };
        let used = hard.iter().map(|(name, _)| (name, Value::from("0")));
        let status = Map::from_iter([
            ("hard", Value::Map(hard.clone())),
            ("used", Value::Map(used.collect())),
        ]);
        let patch = Value::Map(Map::from_iter([("status", Value::Map(status))]));
        let name = escaped(quota.str_at(&["metadata", "name"]));
        let path = format!("{collection}/{name}/status");
        let _ = self.send(Method::PATCH, &path, MERGE_PATCH, &json_text(&patch)).await;
    }
}

/// An object with a name alone.
fn named(name: &str) -> Value {
    let metadata = Map::from_iter([("name", Value::from(name))]);
    Value::Map(Map::from_iter([("metadata", Value::Map(metadata))]))
}

/// Documents of a step, decoded.
pub fn trees<'d>(
    planned: &'d [PlannedDocument<'d>],
) -> impl Iterator<Item = (PlannedDocument<'d>, Value)> + use<'d> {
    planned.iter().filter_map(|one| Some((*one, decoded(one.document)?)))
}
