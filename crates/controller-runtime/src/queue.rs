//! Work queue: no key is queued twice or worked on twice at a time (upstream: `workqueue`).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kevel_clock::timer_now;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::measured::QueueMetrics;

/// Backoff of failed keys.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Wait after the first failure; doubled after each further one.
    pub base: Duration,
    /// Longest wait.
    pub max: Duration,
    /// Retries per second, over all keys.
    pub per_second: f64,
    /// Retries at once before the rate limit applies.
    pub burst: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1000),
            per_second: 10.0,
            burst: 100.0,
        }
    }
}

/// A rate-limited work queue.
#[derive(Debug)]
pub struct WorkQueue {
    state: Mutex<QueueState>,
    changed: Notify,
    backoff: Backoff,
    metrics: Option<QueueMetrics>,
}

#[derive(Debug)]
struct QueueState {
    waiting: VecDeque<String>,
    /// Keys that are queued, or must be queued again after their worker is done.
    dirty: HashSet<String>,
    /// Keys in work, and the start of that.
    working: HashMap<String, Instant>,
    /// Times at which the dirty keys were added, if the queue is measured.
    added: HashMap<String, Instant>,
    failures: HashMap<String, u32>,
    /// Token bucket of the retries, and the time of its last refill.
    tokens: f64,
    filled: Instant,
    over: bool,
}

impl WorkQueue {
    /// An empty queue.
    pub fn new(backoff: Backoff) -> Arc<Self> {
        WorkQueue::measured(backoff, None)
    }

    /// An empty queue with metrics.
    pub(super) fn measured(backoff: Backoff, metrics: Option<QueueMetrics>) -> Arc<Self> {
        let state = QueueState {
            waiting: VecDeque::new(),
            dirty: HashSet::new(),
            working: HashMap::new(),
            added: HashMap::new(),
            failures: HashMap::new(),
            tokens: backoff.burst,
            filled: timer_now(),
            over: false,
        };
        Arc::new(WorkQueue { state: Mutex::new(state), changed: Notify::new(), backoff, metrics })
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key, unless it is queued. A key in work is queued afterwards.
    pub fn add(&self, key: &str) {
        let mut state = self.lock();
        if state.over || !state.dirty.insert(key.to_owned()) {
            return;
        }
        if let Some(metrics) = &self.metrics {
            metrics.adds.increment();
            state.added.insert(key.to_owned(), timer_now());
        }
        if !state.working.contains_key(key) {
            state.waiting.push_back(key.to_owned());
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Adds a key after a wait.
    pub fn add_after(self: &Arc<Self>, key: &str, wait: Duration) {
        if wait.is_zero() {
            return self.add(key);
        }
        if let Some(metrics) = &self.metrics {
            metrics.retries.increment();
        }
        let (queue, key) = (Arc::downgrade(self), key.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            if let Some(queue) = queue.upgrade() {
                queue.add(&key);
            }
        });
    }

    /// Adds a failed key with backoff.
    pub fn add_rate_limited(self: &Arc<Self>, key: &str) {
        let wait = {
            let mut state = self.lock();
            let failures = state.failures.entry(key.to_owned()).or_default();
            let own =
                self.backoff.base.saturating_mul(1u32.checked_shl(*failures).unwrap_or(u32::MAX));
            *failures = failures.saturating_add(1);
            own.min(self.backoff.max).max(state.turn(&self.backoff))
        };
        self.add_after(key, wait);
    }

    /// Resets the failures of a key.
    pub fn forget(&self, key: &str) {
        self.lock().failures.remove(key);
    }

    /// Takes the next key; [`WorkQueue::done`] must be called for it. `None` when the queue is shut down and empty.
    pub async fn next(&self) -> Option<String> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.lock();
                if let Some(key) = state.waiting.pop_front() {
                    state.dirty.remove(&key);
                    let now = timer_now();
                    state.working.insert(key.clone(), now);
                    if let (Some(metrics), Some(added)) = (&self.metrics, state.added.remove(&key))
                    {
                        metrics.queue_duration.observe((now - added).as_secs_f64());
                    }
                    if !state.waiting.is_empty() {
                        self.changed.notify_one();
                    }
                    return Some(key);
                }
                if state.over {
                    self.changed.notify_one();
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Ends the work on a key; if it was added meanwhile, it is queued again.
    pub fn done(&self, key: &str) {
        let mut state = self.lock();
        if let (Some(started), Some(metrics)) = (state.working.remove(key), &self.metrics) {
            metrics.work_duration.observe((timer_now() - started).as_secs_f64());
        }
        if state.dirty.contains(key) {
            state.waiting.push_back(key.to_owned());
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Accepts no more keys; workers end when the queue is empty.
    pub fn shut_down(&self) {
        self.lock().over = true;
        self.changed.notify_one();
    }

    /// Number of keys that are queued, or will be after their worker is done; and how long each key in work has been.
    pub(super) fn load(&self) -> (usize, Vec<Duration>) {
        let (state, now) = (self.lock(), timer_now());
        (state.dirty.len(), state.working.values().map(|started| now - *started).collect())
    }

    /// Number of queued keys.
    pub fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Whether no key is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl QueueState {
    /// Wait of a key for a token.
    fn turn(&mut self, backoff: &Backoff) -> Duration {
        let now = timer_now();
        let grown = (now - self.filled).as_secs_f64() * backoff.per_second;
        self.tokens = (self.tokens + grown).min(backoff.burst) - 1.0;
        self.filled = now;
        match self.tokens {
            tokens if tokens >= 0.0 => Duration::ZERO,
            tokens => Duration::from_secs_f64(-tokens / backoff.per_second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_stands_in_the_queue_once() {
        let queue = WorkQueue::new(Backoff::default());
        for key in ["a", "b", "a", "b", "a"] {
            queue.add(key);
        }
        assert_eq!(queue.next().await.as_deref(), Some("a"));
        // Added while in work: queued again only after it is done.
        queue.add("a");
        assert_eq!(queue.next().await.as_deref(), Some("b"));
        queue.done("b");
        assert!(queue.is_empty());
        queue.done("a");
        assert_eq!(queue.next().await.as_deref(), Some("a"));
        queue.done("a");
        queue.shut_down();
        assert_eq!(queue.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_fails_waits_twice_as_long_each_time() {
        let queue = WorkQueue::new(Backoff::default());
        let mut waits = Vec::new();
        for _ in 0..4 {
            let start = timer_now();
            queue.add_rate_limited("a");
            queue.next().await;
            queue.done("a");
            waits.push(start.elapsed().as_millis());
        }
        assert_eq!(waits, [5, 10, 20, 40]);
        queue.forget("a");
        let start = timer_now();
        queue.add_rate_limited("a");
        queue.next().await;
        assert_eq!(start.elapsed().as_millis(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_of_many_keys_are_spread() {
        let queue = WorkQueue::new(Backoff::default());
        let start = timer_now();
        for i in 0..120 {
            queue.add_rate_limited(&i.to_string());
        }
        for _ in 0..120 {
            let key = queue.next().await.unwrap();
            queue.done(&key);
        }
        // 100 at once, the rest at ten per second.
        assert_eq!(start.elapsed().as_secs(), 2);
    }
}
