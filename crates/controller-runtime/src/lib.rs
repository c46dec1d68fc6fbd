//! Common parts of in-process controllers: a work queue, informers on the cache, a client with admission, and
//! leader election.

mod client;
mod informer;
mod leader_elector;
mod loopback;
mod measured;
mod queue;
mod queue_metrics;

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

pub use client::Client;
pub use informer::{HasSynced, Informer, InformerEvent};
use kevel_compute::Metered;
pub use leader_elector::{LeaderElectionTimers, LeaderElector};
pub use loopback::Loopback;
pub use queue::{Backoff, WorkQueue};
pub use queue_metrics::WorkQueues;
use tokio::task::JoinSet;

/// Runs `workers` on a queue until it is shut down. A key whose reconciliation fails is retried with backoff. Panics if
/// a reconciliation panics.
pub async fn run<R, F, E>(queue: Arc<WorkQueue>, name: &'static str, workers: usize, reconcile: R)
where
    R: Fn(String) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let mut work = JoinSet::new();
    for _ in 0..workers.max(1) {
        let (queue, reconcile) = (queue.clone(), reconcile.clone());
        let reconciling = async move {
            while let Some(key) = queue.next().await {
                match reconcile(key.clone()).await {
                    Ok(()) => queue.forget(&key),
                    Err(error) => {
                        tracing::warn!(controller = name, key, %error, "reconciliation failed");
                        queue.add_rate_limited(&key);
                    }
                }
                queue.done(&key);
            }
        };
        work.spawn(Metered::task(Box::pin(reconciling), name));
    }
    while let Some(ended) = work.join_next().await {
        // The key of a panicked reconciliation would stay in work for ever, so the controller's task must end.
        if let Err(error) = ended
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_component::signals::Signal;
    use kevel_server::lifecycle::Tasks;

    fn cannot(key: &str) -> Result<(), std::convert::Infallible> {
        panic!("cannot stand {key}")
    }

    #[tokio::test]
    async fn a_worker_that_panics_is_a_matter_of_health() {
        let tasks = Tasks::new(Signal::new("ShutdownInitiated"));
        let queue = WorkQueue::new(Backoff::default());
        queue.add("bad");
        let reconcile = |key: String| async move { cannot(&key) };
        tasks.spawn("naming", run(queue, "naming", 2, reconcile));
        let red = async {
            loop {
                match tasks.check().check().await {
                    Ok(()) => tokio::task::yield_now().await,
                    Err(why) => return why,
                }
            }
        };
        let why = tokio::time::timeout(std::time::Duration::from_secs(60), red).await.unwrap();
        assert!(why.starts_with("naming: ") && why.contains("cannot stand bad"), "{why}");
    }
}
