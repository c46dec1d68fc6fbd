//! Deletion of finished Jobs after their time to live.

use std::sync::Arc;

use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, run};

use crate::context::ControllerContext;
use crate::delay::Delays;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::object::{is_deleted, name, namespace, split, texts, uid, unless_gone};
use crate::reconcile_error::ReconcileError;
use crate::unavailable::Unavailable;

const NAME: &str = "ttl-after-finished-controller";
/// Workers (upstream: `ConcurrentTTLSyncs`).
const WORKERS: usize = 5;

struct Jobs {
    client: Client,
    jobs: CacheLister,
    delays: Arc<Delays>,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("ttl_jobs_to_delete", Backoff::default());
    let delays = Delays::new(context.clock().clone(), queue.clone());
    let this = Arc::new(Jobs {
        client: context.client(NAME),
        jobs: CacheLister::new(context.storage("batch", "jobs")?),
        delays: delays.clone(),
    });
    let (heard, lister) = (queue.clone(), this.jobs.clone());
    let informer = this.jobs.informer().for_each(move |job| {
        if lister.tree(job).is_ok_and(|job| time_to_live(&job).is_some()) {
            heard.add(job.key());
        }
    });
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        tokio::join!(informer, delays.run(), run(queue, NAME, WORKERS, reconcile));
    }))
}

/// Seconds that a Job is kept, and the condition by which it has finished, if it is to be deleted.
fn time_to_live(job: &Value) -> Option<(i64, &Value)> {
    let seconds = job.at(&["spec", "ttlSecondsAfterFinished"])?.as_int()?;
    let finished = job.list_at(&["status", "conditions"]).iter().find(|condition| {
        ["Complete", "Failed"].contains(&condition.str_at(&["type"]))
            && condition.str_at(&["status"]) == "True"
    });
    finished.filter(|_| !is_deleted(job)).map(|finished| (seconds, finished))
}

impl Jobs {
    async fn reconcile(&self, key: &str) -> Result<(), ReconcileError> {
        let (space, job_name) = split(key);
        let known = self.jobs.get(space, job_name)?;
        if !known.is_some_and(|job| self.has_expired(key, &job).unwrap_or(true)) {
            return Ok(());
        }
        // The time to live may have been changed meanwhile.
        let path = format!("/apis/batch/v1/namespaces/{space}/jobs/{job_name}");
        let Some(job) = unless_gone(self.client.get(&path).await)? else { return Ok(()) };
        if !self.has_expired(key, &job)? {
            return Ok(());
        }
        let mut options = texts([("propagationPolicy", "Foreground")]);
        let preconditions: Map = texts([("uid", uid(&job))]);
        options.insert("preconditions", preconditions.into());
        Ok(self.client.delete_with(&path, &options.into()).await.map(drop)?)
    }

    /// Whether a Job is to be deleted now; one that will be later is queued for that time.
    fn has_expired(&self, key: &str, job: &Value) -> Result<bool, ReconcileError> {
        let Some((seconds, finished)) = time_to_live(job) else { return Ok(false) };
        let at: Time = finished.str_at(&["lastTransitionTime"]).parse().map_err(|_| {
            let (space, job_name) = (namespace(job), name(job));
            let text = "unable to find the time when the Job";
            ReconcileError::Objects(format!("{text} {space}/{job_name} finished"))
        })?;
        let expires = Time { seconds: at.seconds.saturating_add(seconds) };
        Ok(!self.delays.add_at(key, expires))
    }
}
