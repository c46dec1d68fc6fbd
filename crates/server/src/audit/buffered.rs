//! Queue of audit events, so that requests do not wait for the backend (mode `batch`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_clock::timer_now;
use kevel_compute::Metered;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::backend::{Backend, Errors};
use super::event::Event;
use kevel_component::future::Pending;

const PLUGIN: &str = "buffered";

/// Batches being sent at once. Others stay in the queue, so that a hanging receiver does not take all memory.
const MAX_SENDING: usize = 64;

/// Options of batches (`--audit-log-batch-*`, `--audit-webhook-batch-*`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Events in the queue before more are dropped.
    pub buffer_size: usize,
    /// Most events of a batch.
    pub max_size: usize,
    /// Longest wait of an event for others.
    pub max_wait: Duration,
    /// Rate limit of batches.
    pub throttle: Option<Throttle>,
    /// Whether a batch is sent while others are on their way.
    pub concurrent: bool,
}

/// Rate limit of batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Batches per second on average.
    pub qps: f32,
    /// Batches at once, after a pause.
    pub burst: usize,
}

/// Mode `batch`.
pub struct Buffered {
    delegate: Arc<dyn Backend>,
    /// `None` after the shutdown.
    queue: Mutex<Option<Sender<Arc<Event>>>>,
    sending: Mutex<Option<JoinHandle<()>>>,
    errors: Errors,
}

impl std::fmt::Debug for Buffered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Buffered {
    /// Starts the task that sends batches.
    pub fn start(delegate: impl Backend, batch: Batch, errors: Errors) -> Self {
        let delegate: Arc<dyn Backend> = Arc::new(delegate);
        let (queue, waiting) = channel(batch.buffer_size.max(1));
        let sending = tokio::spawn(send(delegate.clone(), waiting, batch));
        Buffered {
            delegate,
            queue: Mutex::new(Some(queue)),
            sending: Mutex::new(Some(sending)),
            errors,
        }
    }
}

impl Backend for Buffered {
    fn name(&self) -> String {
        format!("{PLUGIN}<{}>", self.delegate.name())
    }

    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> Pending<'a, bool> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, event) in events.iter().enumerate() {
            let error = match queue.as_ref().map(|queue| queue.try_send(event.clone())) {
                Some(Ok(())) => continue,
                Some(Err(TrySendError::Full(_))) => "audit buffer queue blocked",
                Some(Err(TrySendError::Closed(_))) | None => "audit backend shut down",
            };
            self.errors.tell(PLUGIN, error, events.get(index..).unwrap_or_default());
            break;
        }
        // A request does not fail because of a full queue.
        Box::pin(std::future::ready(true))
    }

    fn shut_down(&self) -> Pending<'_, ()> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async move {
            if let Some(sending) = sending
                && let Err(error) = sending.await
            {
                tracing::error!(%error, "audit events are lost");
            }
            self.delegate.shut_down().await;
        })
    }
}

/// Sends batches until the queue is closed.
async fn send(delegate: Arc<dyn Backend>, mut waiting: Receiver<Arc<Event>>, batch: Batch) {
    let mut sending = JoinSet::new();
    let mut bucket = batch.throttle.map(Bucket::new);
    while let Some(events) = gather(&mut waiting, &batch).await {
        if let Some(bucket) = &mut bucket {
            bucket.take().await;
        }
        let delegate = delegate.clone();
        // In a task of its own, so that a panic loses only one batch.
        let process = async move { delegate.process(&events).await };
        sending.spawn(Metered::task(Box::pin(process), "audit"));
        while sending.try_join_next().is_some() {}
        let at_once = if batch.concurrent { MAX_SENDING } else { 1 };
        while sending.len() >= at_once {
            sending.join_next().await;
        }
    }
    while sending.join_next().await.is_some() {}
}

/// The next batch; `None` after the queue is closed.
async fn gather(waiting: &mut Receiver<Arc<Event>>, batch: &Batch) -> Option<Vec<Arc<Event>>> {
    let mut events = vec![waiting.recv().await?];
    let until = timer_now() + batch.max_wait;
    while events.len() < batch.max_size {
        match tokio::time::timeout_at(until, waiting.recv()).await {
            Ok(Some(event)) => events.push(event),
            Ok(None) | Err(_) => break,
        }
    }
    Some(events)
}

/// Token bucket; every batch takes a token.
struct Bucket {
    throttle: Throttle,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn new(throttle: Throttle) -> Self {
        Bucket { throttle, tokens: throttle.burst as f64, filled: timer_now() }
    }

    async fn take(&mut self) {
        let qps = f64::from(self.throttle.qps).max(f64::MIN_POSITIVE);
        let now = timer_now();
        let fresh = (now - self.filled).as_secs_f64() * qps;
        self.tokens = (self.tokens + fresh).min(self.throttle.burst as f64) - 1.0;
        self.filled = now;
        if self.tokens < 0.0 {
            let wait = Duration::try_from_secs_f64(-self.tokens / qps);
            tokio::time::sleep(wait.unwrap_or(Duration::MAX)).await;
        }
    }
}
