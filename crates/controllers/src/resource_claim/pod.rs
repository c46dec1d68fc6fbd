//! Claims that a pod needs.

use std::collections::BTreeMap;

use kevel_api::value::{Map, Value};
use kevel_store::cache::At;

use super::TemplatedClaims;
use super::names::{ClaimNames, claim_name};
use crate::object::{
    controller_of, is_controlled_by, is_deleted, name, namespace, regarding, split, texts, uid,
};
use crate::reconcile_error::ReconcileError;
use crate::recorder::EventKind;

/// Annotation that says which of a pod's claims a claim was made for.
const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";
const FIELD_MANAGER: &str = "ResourceClaimController";
/// Consumers that a claim may have (upstream: `ResourceClaimReservedForMaxSize`).
const MAX_RESERVED: usize = 256;
/// Longest begin of a generated name: 63 characters less a hyphen and five random ones.
const MAX_BASE: usize = 57;

impl TemplatedClaims {
    pub(super) async fn sync_pod(&self, key: &str) -> Result<(), ReconcileError> {
        let (space, pod_name) = split(key);
        let pod = self.pods.get(space, pod_name)?;
        let Some(pod) = pod.filter(|pod| !is_deleted(pod)) else { return Ok(()) };
        let mut made = BTreeMap::new();
        for claim in pod.list_at(&["spec", "resourceClaims"]) {
            let of = claim.str_at(&["name"]);
            match self.make_claim(&pod, claim).await {
                Ok(None) => {}
                Ok(Some(name)) => drop(made.insert(of, name)),
                Err(error) => {
                    let message = format!("PodResourceClaim {of}: {error}");
                    let regarding = regarding("v1", "Pod", &pod);
                    let reason = "FailedResourceClaimCreation";
                    self.recorder.event(&regarding, EventKind::Warning, reason, &message).await;
                    return Err(ReconcileError::Objects(format!("pod {key}, {message}")));
                }
            }
        }
        if !made.is_empty() {
            self.tell_made(&pod, &made).await?;
        }
        if pod.str_at(&["spec", "nodeName"]).is_empty() {
            return Ok(());
        }
        self.reserve(&pod).await
    }

    async fn tell_made(
        &self,
        pod: &Value,
        made: &BTreeMap<&str, String>,
    ) -> Result<(), ReconcileError> {
        let statuses = made
            .iter()
            .map(|(of, claim)| Value::Map(texts([("name", of), ("resourceClaimName", claim)])));
        let statuses = Value::List(statuses.collect());
        let status = Map::from_iter([("resourceClaimStatuses", statuses)]);
        let metadata = texts([("name", name(pod)), ("namespace", namespace(pod))]);
        let mut applied = texts([("apiVersion", "v1"), ("kind", "Pod")]);
        applied.insert("metadata", metadata.into());
        applied.insert("status", status.into());
        let path = format!("{}/status", crate::pod::path(pod));
        Ok(self.client.apply(&path, &applied.into(), FIELD_MANAGER).await.map(drop)?)
    }

    /// Makes a claim from its template, if it is not there; returns its name if the pod does not name it yet.
    async fn make_claim(
        &self,
        pod: &Value,
        claim: &Value,
    ) -> Result<Option<String>, ReconcileError> {
        match claim_name(pod, claim) {
            ClaimNames::Given(_) | ClaimNames::NotNeeded => return Ok(None),
            ClaimNames::Made(made) => {
                let known = self.claims.get(namespace(pod), made)?;
                if known.is_some_and(|known| is_controlled_by(&known, pod)) {
                    return Ok(None);
                }
            }
            ClaimNames::NotMade => {}
        }
        let of = claim.str_at(&["name"]);
        let template_name = claim.str_at(&["resourceClaimTemplateName"]);
        if let Some(found) = self.find_made(pod, of).await? {
            return Ok(Some(found));
        }
        let Some(template) = self.templates.get(namespace(pod), template_name)? else {
            let resource = "resourceclaimtemplate.resource.k8s.io";
            let message = format!(
                "resource claim template {template_name:?}: {resource} {template_name:?} not found"
            );
            return Err(ReconcileError::Objects(message));
        };
        self.check_features(&template)?;
        let path = format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims", namespace(pod));
        let created = self.client.create(&path, &from_template(pod, of, &template)).await;
        let created = created
            .map_err(|error| ReconcileError::Objects(format!("create ResourceClaim : {error}")))?;
        Ok(Some(name(&created).to_owned()))
    }

    /// Name of the claim that was made for a pod: among those that the store has now.
    async fn find_made(&self, pod: &Value, of: &str) -> Result<Option<String>, ReconcileError> {
        let prefix = format!("{}/", namespace(pod));
        for claim in self.claims.snapshot_at(At::Consistent).await?.range(&prefix, None) {
            kevel_compute::charge(1);
            let claim = self.claims.tree(claim)?;
            let owner = controller_of(&claim).filter(|owner| {
                owner.str_at(&["apiVersion"]) == "v1" && owner.str_at(&["kind"]) == "Pod"
            });
            let is_own = owner.is_some_and(|owner| owner.str_at(&["uid"]) == uid(pod));
            if is_own && claim.str_at(&["metadata", "annotations", POD_CLAIM]) == of {
                return Ok(Some(name(&claim).to_owned()));
            }
        }
        Ok(None)
    }

    fn check_features(&self, template: &Value) -> Result<(), ReconcileError> {
        let requests = template.list_at(&["spec", "spec", "devices", "requests"]);
        let admin = |it: &Value| it.at(&["exactly", "adminAccess"]) == Some(&Value::Bool(true));
        if !self.admin_access && requests.iter().any(admin) {
            let message = "admin access is requested, but the feature is disabled";
            return Err(ReconcileError::Objects(message.to_owned()));
        }
        let prioritized = |it: &Value| !it.list_at(&["firstAvailable"]).is_empty();
        if !self.prioritized_list && requests.iter().any(prioritized) {
            let message =
                "template includes a prioritized list of subrequests, but the feature is disabled";
            return Err(ReconcileError::Objects(message.to_owned()));
        }
        Ok(())
    }

    /// Reserves the allocated claims of a pod that was scheduled without a scheduler.
    async fn reserve(&self, pod: &Value) -> Result<(), ReconcileError> {
        for of in pod.list_at(&["spec", "resourceClaims"]) {
            let (claim_name, is_made) = match claim_name(pod, of) {
                ClaimNames::Given(name) => (name, false),
                ClaimNames::Made(name) => (name, true),
                ClaimNames::NotNeeded => continue,
                // The pod is queued again with its new status.
                ClaimNames::NotMade => return Ok(()),
            };
            let Some(mut claim) = self.claims.get(namespace(pod), claim_name)? else {
                return Ok(());
            };
            if is_made && !is_controlled_by(&claim, pod) {
                let (space, pod_name) = (namespace(pod), name(pod));
                return Err(ReconcileError::Objects(format!(
                    "ResourceClaim {space}/{claim_name} was not created for pod {space}/{pod_name} \
                     (pod is not owner)"
                )));
            }
            let reserved = claim.list_at(&["status", "reservedFor"]);
            let is_reserved = reserved.iter().any(|known| known.str_at(&["uid"]) == uid(pod));
            let is_allocated = claim.at(&["status", "allocation"]).is_some();
            if !is_allocated || is_reserved || reserved.len() >= MAX_RESERVED {
                continue;
            }
            let consumer = texts([("resource", "pods"), ("name", name(pod)), ("uid", uid(pod))]);
            claim.make_list(&["status"], "reservedFor").push(consumer.into());
            self.write_claim(&claim, "/status").await?;
        }
        Ok(())
    }
}

fn from_template(pod: &Value, of: &str, template: &Value) -> Value {
    let part = |path: &[&str]| template.at(path).cloned();
    let mut owner =
        texts([("apiVersion", "v1"), ("kind", "Pod"), ("name", name(pod)), ("uid", uid(pod))]);
    owner.insert("controller", true.into());
    let mut metadata = texts([("generateName", &generate_name(name(pod), of))]);
    metadata.insert("ownerReferences", Value::List([Value::Map(owner)].into_iter().collect()));
    if let Some(labels) = part(&["spec", "metadata", "labels"]) {
        metadata.insert("labels", labels);
    }
    let mut annotations = part(&["spec", "metadata", "annotations"]).unwrap_or_default();
    annotations.make_map(&[]).insert(POD_CLAIM, of.into());
    metadata.insert("annotations", annotations);
    let spec = part(&["spec", "spec"]).unwrap_or_else(|| Map::new().into());
    Map::from_iter([("metadata", Value::Map(metadata)), ("spec", spec)]).into()
}

/// Begin of a claim's name; of long names, parts of both.
fn generate_name(pod: &str, claim: &str) -> String {
    let whole = format!("{pod}-{claim}-");
    if whole.len() <= MAX_BASE {
        return whole;
    }
    let begin = |text: &str, of: usize| text.chars().take(text.len() * MAX_BASE / of).collect();
    let first: String = begin(pod, whole.len());
    let second: String = begin(claim, whole.len());
    format!("{first}-{second}")
}
