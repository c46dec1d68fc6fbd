//! Reservations of a claim, and its end.

use kevel_api::value::Value;
use kevel_store::cache::At;

use super::TemplatedClaims;
use super::names::needs_claims;
use crate::object::{controller_of, is_deleted, name, namespace, split, uid, unless_gone};
use crate::reconcile_error::ReconcileError;

/// Finalizer of allocated claims.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

fn has_finalizer(claim: &Value) -> bool {
    let finalizers = claim.list_at(&["metadata", "finalizers"]);
    finalizers.iter().any(|known| known.as_str() == Some(FINALIZER))
}

fn path(claim: &Value) -> String {
    let (space, claim_name) = (namespace(claim), name(claim));
    format!("/apis/resource.k8s.io/v1/namespaces/{space}/resourceclaims/{claim_name}")
}

impl TemplatedClaims {
    pub(super) async fn write_claim(
        &self,
        claim: &Value,
        subresource: &str,
    ) -> Result<Value, ReconcileError> {
        Ok(self.client.update(&format!("{}{subresource}", path(claim)), claim).await?)
    }

    pub(super) async fn sync_claim(&self, key: &str) -> Result<(), ReconcileError> {
        let (space, claim_name) = split(key);
        let Some(claim) = self.claims.get(space, claim_name)? else { return Ok(()) };
        let reserved = claim.list_at(&["status", "reservedFor"]);
        let mut remaining = Vec::with_capacity(reserved.len());
        if !reserved.is_empty() {
            let pods = self.pods.snapshot_at(At::Consistent).await?;
            for consumer in reserved {
                let is_pod = consumer.str_at(&["apiGroup"]).is_empty()
                    && consumer.str_at(&["resource"]) == "pods";
                let pod = pods.get(&format!("{space}/{}", consumer.str_at(&["name"])));
                let pod = pod.map(|pod| self.pods.tree(pod)).transpose()?;
                let lives = pod.is_some_and(|pod| {
                    uid(&pod) == consumer.str_at(&["uid"]) && needs_claims(&pod)
                });
                if !is_pod || lives {
                    remaining.push(consumer.clone());
                }
            }
        }
        let is_unused = remaining.is_empty();
        if remaining.len() < reserved.len() {
            self.free(claim.clone(), remaining).await?;
        } else if is_unused && is_deleted(&claim) && has_finalizer(&claim) {
            self.deallocate(claim.clone()).await?;
        }
        if is_unused { self.delete_of_ended_pod(&claim).await } else { Ok(()) }
    }

    /// Removes reservations; a claim without any is no longer allocated.
    async fn free(&self, mut claim: Value, remaining: Vec<Value>) -> Result<(), ReconcileError> {
        let status = claim.make_map(&["status"]);
        if remaining.is_empty() {
            status.remove("reservedFor");
        } else {
            status.insert("reservedFor", Value::List(remaining.iter().cloned().collect()));
        }
        if remaining.is_empty() && has_finalizer(&claim) {
            claim.make_map(&["status"]).remove("allocation");
        }
        let claim = self.write_claim(&claim, "/status").await?;
        if has_finalizer(&claim) && claim.at(&["status", "allocation"]).is_none() {
            self.remove_finalizer(claim).await?;
        }
        Ok(())
    }

    async fn deallocate(&self, mut claim: Value) -> Result<(), ReconcileError> {
        if claim.make_map(&["status"]).remove("allocation").is_some() {
            claim = self.write_claim(&claim, "/status").await?;
        }
        self.remove_finalizer(claim).await
    }

    async fn remove_finalizer(&self, mut claim: Value) -> Result<(), ReconcileError> {
        let finalizers = claim.make_list(&["metadata"], "finalizers");
        finalizers.retain(|known| known.as_str() != Some(FINALIZER));
        self.write_claim(&claim, "").await.map(drop)
    }

    /// Deletes a claim that was made for a pod that has ended. The garbage collector deletes those of deleted pods.
    async fn delete_of_ended_pod(&self, claim: &Value) -> Result<(), ReconcileError> {
        let owner = controller_of(claim).filter(|owner| {
            owner.str_at(&["apiVersion"]) == "v1" && owner.str_at(&["kind"]) == "Pod"
        });
        let Some(owner) = owner else { return Ok(()) };
        let Some(pod) = self.pods.get(namespace(claim), owner.str_at(&["name"]))? else {
            return Ok(());
        };
        if uid(&pod) == owner.str_at(&["uid"]) && needs_claims(&pod) {
            return Ok(());
        }
        let deleted = unless_gone(self.client.delete(&path(claim)).await);
        deleted.map(drop).map_err(|error| {
            let key = format!("{}/{}", namespace(claim), name(claim));
            ReconcileError::Objects(format!("delete unused generated claim {key}: {error}"))
        })
    }
}
