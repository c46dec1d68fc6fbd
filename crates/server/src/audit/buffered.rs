//! Events that wait in a queue, so that no request waits for them.

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
use crate::future::Pending;

const PLUGIN: &str = "buffered";

/// How many batches may be on their way at once. The others wait in the queue: a receiver that
/// hangs must not take the memory.
const MAX_SENDING: usize = 64;

/// How events are gathered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// How many events wait before more are dropped.
    pub buffer_size: usize,
    /// How many events a batch has at most.
    pub max_size: usize,
    /// How long an event waits for others, at most.
    pub max_wait: Duration,
    /// How many batches there may be.
    pub throttle: Option<Throttle>,
    /// Whether the next batch is sent while others are on their way.
    pub concurrent: bool,
}

/// A rate of batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// On average, per second.
    pub qps: f32,
    /// At once, after a pause.
    pub burst: usize,
}

/// The mode `batch`.
pub struct Buffered {
    delegate: Arc<dyn Backend>,
    /// Gone when it is shut down.
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
    /// Begins to pass events on.
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
        // A request does not fail because of it.
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

/// Passes events on until there will be no more.
async fn send(delegate: Arc<dyn Backend>, mut waiting: Receiver<Arc<Event>>, batch: Batch) {
    let mut sending = JoinSet::new();
    let mut bucket = batch.throttle.map(Bucket::new);
    while let Some(events) = gather(&mut waiting, &batch).await {
        if let Some(bucket) = &mut bucket {
            bucket.take().await;
        }
        let delegate = delegate.clone();
        // In a task of its own, so that a panic loses one batch only.
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

/// The next batch; `None` if there will be no more.
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

/// A bucket of tokens, of which every batch takes one.
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
