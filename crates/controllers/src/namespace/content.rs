//! Deletion of the content of a namespace, resource by resource.

use std::collections::BTreeMap;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::Client;

use super::conditions::PassFindings;
use crate::discovery::{ApiResource, preferred_resources};

/// Form of lists of which only metadata is read.
const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// Seconds that finalizers are given where nothing else is known.
const FINALIZER_SECONDS: i64 = 15;

/// Outcome of a pass over the content.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// Seconds until the remaining content is probably gone; zero if nothing is waited for.
    pub estimate: i64,
    pub findings: PassFindings,
    /// Errors, discovery's included: after them the namespace is not finalized.
    pub errors: Vec<String>,
}

/// Remaining objects of a resource.
#[derive(Debug, Default)]
struct Remaining {
    estimate: i64,
    count: usize,
    finalizers: BTreeMap<String, usize>,
}

/// Deletes the content of a namespace. Pods go first, and the rest only when no pod is left: what they use must last
/// as long as they do.
pub(super) async fn delete_all(client: &Client, namespace: &Value) -> Result<Pass, StatusError> {
    let name = namespace.str_at(&["metadata", "name"]);
    let deleted: Time = namespace
        .str_at(&["metadata", "deletionTimestamp"])
        .parse()
        .map_err(StatusError::internal)?;
    let discovered = preferred_resources(client).await?;
    let mut pass = Pass::default();
    if let Some(error) = discovered.error() {
        pass.errors.push(error.clone());
        pass.findings.discovery = Some((discovered.failed.len(), error));
    }
    let deletable = |resource: &&ApiResource| resource.namespaced && resource.allows("delete");
    let mut resources: Vec<&ApiResource> = discovered.resources.iter().filter(deletable).collect();
    resources.sort_by_key(|resource| !is_pods(resource));
    for resource in resources {
        let content = NamespaceContent { client, namespace: name, resource };
        let pods = is_pods(resource);
        let grace = if pods { content.pod_grace().await? } else { 0 };
        let elapsed = Time::now(client.clock()).seconds.saturating_sub(deleted.seconds);
        let grace = if elapsed >= grace { 0 } else { grace };
        let (remaining, error) = content.delete(grace).await;
        if let Some(error) = error {
            pass.findings.errors.push(error.clone());
            pass.errors.push(match pods {
                true => format!("failed to delete pods for namespace: {name}, err: {error}"),
                false => error,
            });
        }
        pass.estimate = pass.estimate.max(remaining.estimate);
        if pods && remaining.count > 0 {
            return Ok(pass);
        }
        let shown = format!("{}.{}", resource.plural, resource.group);
        pass.findings.add_remaining(shown, remaining.count, &remaining.finalizers);
    }
    Ok(pass)
}

fn is_pods(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.plural == "pods"
}

/// Objects of a resource in a namespace.
struct NamespaceContent<'a> {
    client: &'a Client,
    namespace: &'a str,
    resource: &'a ApiResource,
}

impl NamespaceContent<'_> {
    /// Deletes the objects; returns the remaining ones, and an error.
    async fn delete(&self, grace: i64) -> (Remaining, Option<String>) {
        let failed = |error: StatusError| {
            (Remaining { estimate: grace, ..Remaining::default() }, Some(error.to_string()))
        };
        if let Err(error) = self.delete_objects().await {
            return failed(error);
        }
        let items = match self.list().await {
            Ok(Some(items)) => items,
            Ok(None) => return (Remaining { estimate: grace, ..Remaining::default() }, None),
            Err(error) => return failed(error),
        };
        if items.is_empty() {
            return (Remaining::default(), None);
        }
        let mut finalizers = BTreeMap::new();
        for item in &items {
            kevel_compute::charge(1);
            for finalizer in item.list_at(&["metadata", "finalizers"]) {
                *finalizers.entry(finalizer.as_str().unwrap_or("").to_owned()).or_default() += 1;
            }
        }
        let unexpected = grace == 0 && finalizers.is_empty();
        let estimate = if grace == 0 && !unexpected { FINALIZER_SECONDS } else { grace };
        let error = unexpected.then(|| {
            let ApiResource { group, version, plural, .. } = self.resource;
            format!(
                "unexpected items still remain in namespace: {} for gvr: {group}/{version}, \
                 Resource={plural}",
                self.namespace
            )
        });
        (Remaining { estimate, count: items.len(), finalizers }, error)
    }

    async fn delete_objects(&self) -> Result<(), StatusError> {
        let path = self.resource.path(self.namespace);
        let options = background();
        if self.resource.allows("deletecollection") {
            match self.client.delete_with(&path, &options).await {
                Err(error) if is_unsupported(&error) => {}
                deleted => return deleted.map(drop),
            }
        }
        for item in self.list().await?.unwrap_or_default() {
            let name = item.str_at(&["metadata", "name"]);
            match self.client.delete_with(&format!("{path}/{name}"), &options).await {
                Err(error) if !is_unsupported(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Metadata of the objects; `None` if the resource cannot be listed.
    async fn list(&self) -> Result<Option<Vec<Value>>, StatusError> {
        if !self.resource.allows("list") {
            return Ok(None);
        }
        match self.client.get_as(&self.resource.path(self.namespace), METADATA).await {
            Ok(list) => Ok(Some(list.list_at(&["items"]).to_vec())),
            Err(error) if is_unsupported(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Longest grace period of the pods that run.
    async fn pod_grace(&self) -> Result<i64, StatusError> {
        let pods = self.client.get(&self.resource.path(self.namespace)).await?;
        let running = pods
            .list_at(&["items"])
            .iter()
            .filter(|pod| !["Succeeded", "Failed"].contains(&pod.str_at(&["status", "phase"])));
        let grace = |pod: &Value| pod.at(&["spec", "terminationGracePeriodSeconds"])?.as_int();
        Ok(running.filter_map(grace).max().unwrap_or(0).max(0))
    }
}

/// DeleteOptions: dependents in the namespace are deleted anyway.
fn background() -> Value {
    Map::from_iter([
        ("apiVersion", Value::from("v1")),
        ("kind", "DeleteOptions".into()),
        ("propagationPolicy", "Background".into()),
    ])
    .into()
}

fn is_unsupported(error: &StatusError) -> bool {
    [reason::METHOD_NOT_ALLOWED, reason::NOT_FOUND].contains(&error.reason())
}
