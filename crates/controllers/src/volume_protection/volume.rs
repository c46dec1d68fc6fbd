//! Finalizer of PersistentVolumes that are bound.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_controller_runtime::{Backoff, Client, run};

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::finalizer::{FinalizerNeed, need, write};
use crate::lister::CacheLister;
use crate::unavailable::Unavailable;

const FINALIZER: &str = "kubernetes.io/pv-protection";

struct ProtectedVolumes {
    client: Client,
    volumes: CacheLister,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let this = Arc::new(ProtectedVolumes {
        client: context.client("pv-protection-controller"),
        volumes: CacheLister::new(context.storage("", "persistentvolumes")?),
    });
    let queue = context.queue("pvprotection", Backoff::default());
    let (heard, lister) = (queue.clone(), this.volumes.clone());
    let informer = this.volumes.informer().for_each(move |volume| {
        if lister.tree(volume).is_ok_and(|volume| need(&volume, FINALIZER).is_some()) {
            heard.add(volume.name());
        }
    });
    let reconcile = move |name: String| {
        let this = this.clone();
        async move { this.reconcile(&name).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        tokio::join!(informer, run(queue, "persistentvolume-protection-controller", 1, reconcile));
    }))
}

impl ProtectedVolumes {
    async fn reconcile(&self, name: &str) -> Result<(), StatusError> {
        let Some(volume) = self.volumes.get("", name)? else { return Ok(()) };
        let is_used = volume.str_at(&["status", "phase"]) == "Bound";
        match need(&volume, FINALIZER) {
            Some(need) if need == FinalizerNeed::Add || !is_used => {
                let path = format!("/api/v1/persistentvolumes/{name}");
                write(&self.client, &path, volume, FINALIZER, need).await
            }
            _ => Ok(()),
        }
    }
}
