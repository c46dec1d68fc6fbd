//! What in-process controllers share: a queue of keys, informers on the cache, and a client that goes
//! through admission.

mod client;
mod informer;
mod queue;

use std::future::Future;
use std::sync::Arc;

pub use client::Client;
pub use informer::inform;
pub use queue::{Backoff, WorkQueue};

/// Works through a queue until it is shut down, with `workers` at a time. A key whose reconciliation
/// fails comes again later, each time after a longer wait.
pub async fn run<R, F>(queue: Arc<WorkQueue>, name: &'static str, workers: usize, reconcile: R)
where
    R: Fn(String) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    let work = (0..workers.max(1)).map(|_| {
        let (queue, reconcile) = (queue.clone(), reconcile.clone());
        tokio::spawn(async move {
            while let Some(key) = queue.next().await {
                match reconcile(key.clone()).await {
                    Ok(()) => queue.forget(&key),
                    Err(error) => {
                        tracing::warn!(controller = name, key, error, "reconciliation failed");
                        queue.add_rate_limited(&key);
                    }
                }
                queue.done(&key);
            }
        })
    });
    for worker in work.collect::<Vec<_>>() {
        let _ = worker.await;
    }
}
