//! Taints of nodes: those that evict pods come at the rates of the zones.

use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::Value;

use super::health::ready_status;
use super::taints::{NO_EXECUTE, TaintChange, evicting_key, is_tainted, opposite};
use super::zones::zone_of;
use super::{KnownNodes, NAME, NODES, NodeLifecycle};
use crate::object::{name, unless_gone};
use crate::reconcile_error::ReconcileError;

/// Attempts to change taints of a node that others change as well (upstream: `updateTaintBackoff`).
const TRIES: usize = 5;

impl NodeLifecycle {
    /// Changes the taints of a node; returns it changed, `None` if it has gone.
    pub(super) async fn change_taints(
        &self,
        mut node: Value,
        change: &TaintChange,
    ) -> Result<Option<Value>, StatusError> {
        let path = format!("{NODES}/{}", name(&node));
        let mut tries = 1;
        loop {
            let now = Time::now(&self.clock).to_string();
            let Some(patch) = change.patch(&node, &now) else { return Ok(Some(node)) };
            match self.client.merge_patch(&path, &patch).await {
                Err(error) if error.reason() == reason::CONFLICT && tries < TRIES => {
                    tries += 1;
                    match unless_gone(self.client.get(&path).await)? {
                        Some(newer) => node = newer,
                        None => return Ok(None),
                    }
                }
                patched => return unless_gone(patched),
            }
        }
    }

    /// Removes the taints that evict pods, if they have to go whatever the conditions are.
    pub(super) async fn release(&self, node: Value) -> Result<Option<Value>, StatusError> {
        let release = |known: &mut KnownNodes, node: &Value, value: bool| {
            let known = known.nodes.get_mut(name(node));
            known.is_some_and(|known| std::mem::replace(&mut known.release, value))
        };
        if !release(&mut self.known(), &node, false) {
            return Ok(Some(node));
        }
        let released = self.change_taints(node.clone(), &TaintChange::reachable()).await;
        if released.is_err() {
            release(&mut self.known(), &node, true);
        }
        released
    }

    /// Has a node that is not ready wait for its taint; one that is ready loses it (upstream:
    /// `processTaintBaseEviction`).
    pub(super) async fn evict(&self, node: Value) -> Result<(), ReconcileError> {
        let ready = ready_status(&node);
        let Some(key) = evicting_key(ready) else {
            if ready == Some("True") {
                self.known().zones.set_waiting(name(&node), false);
                self.change_taints(node, &TaintChange::reachable()).await?;
            }
            return Ok(());
        };
        if is_tainted(&node, opposite(key), NO_EXECUTE) {
            // One that is tainted already does not wait.
            self.change_taints(node, &TaintChange::evicting(key)).await?;
            return Ok(());
        }
        let waits = !is_tainted(&node, key, NO_EXECUTE);
        if self.known().zones.set_waiting(name(&node), waits) {
            self.tainter.notify_one();
        }
        Ok(())
    }

    /// Taints waiting nodes at the rates of their zones, for ever (upstream: `doNoExecuteTaintingPass`).
    pub(super) async fn taint_nodes(&self) {
        loop {
            let told = self.tainter.notified();
            let now = self.clock.moment();
            let (due, next) = {
                let mut known = self.known();
                // Zones that are not judged yet have no rate.
                if known.unseen.is_empty() {
                    (known.zones.take_due(now), known.zones.next_due())
                } else {
                    (Vec::new(), None)
                }
            };
            for name in &due {
                if let Err(error) = self.taint(name).await {
                    tracing::warn!(controller = NAME, name, %error, "Node was not tainted");
                    self.known().zones.set_waiting(name, true);
                }
            }
            match next {
                _ if !due.is_empty() => {}
                None => told.await,
                Some(next) => {
                    tokio::select! {
                        () = self.clock.sleep_until(next) => {}
                        () = told => {}
                    }
                }
            }
        }
    }

    async fn taint(&self, name: &str) -> Result<(), StatusError> {
        let Some(node) = self.nodes.get("", name)? else { return Ok(()) };
        let Some(key) = evicting_key(ready_status(&node)) else { return Ok(()) };
        if is_tainted(&node, key, NO_EXECUTE) {
            return Ok(());
        }
        let zone = zone_of(&node);
        if self.change_taints(node, &TaintChange::evicting(key)).await?.is_some() {
            self.metrics.count_eviction(&zone);
        }
        Ok(())
    }
}
