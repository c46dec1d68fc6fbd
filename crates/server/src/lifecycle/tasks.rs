//! Tasks that must run as long as the server: controllers, cache followers.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kevel_compute::Metered;

use crate::health::Check;
use kevel_component::signals::Signal;

/// Starts tasks, and records those that end before shutdown.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use kevel_server::lifecycle::Tasks;
/// use kevel_component::signals::Signal;
/// let tasks = Tasks::new(Signal::new("ShutdownInitiated"));
/// tasks.spawn("follower", async { panic!("it cannot be") });
/// while tasks.check().check().await.is_ok() {
///     tokio::task::yield_now().await;
/// }
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Tasks {
    stopping: Signal,
    ended: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Tasks {
    /// No tasks yet. After `stopping` is signaled they may end.
    pub fn new(stopping: Signal) -> Self {
        Tasks { stopping, ended: Arc::default() }
    }

    /// Starts a task that must run until shutdown.
    pub fn spawn(&self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        self.watch_over(name.into(), task, Some("it has ended"));
    }

    /// Starts a task that may end, but must not panic.
    pub fn spawn_finite(
        &self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.watch_over(name.into(), task, None);
    }

    /// Health check that fails once a task has ended that must not.
    pub fn check(&self) -> Check {
        let tasks = self.clone();
        Check::new("tasks", move || {
            let ended = tasks.lock();
            let said: Vec<String> =
                ended.iter().map(|(name, why)| format!("{name}: {why}")).collect();
            if said.is_empty() { Ok(()) } else { Err(said.join("; ")) }
        })
    }

    fn watch_over(
        &self,
        name: String,
        task: impl Future<Output = ()> + Send + 'static,
        end: Option<&'static str>,
    ) {
        // In a task of its own, so that the second task can report its panic.
        let running = tokio::spawn(Metered::task(Box::pin(task), &name));
        let tasks = self.clone();
        tokio::spawn(async move {
            let why = match running.await {
                Err(error) if error.is_panic() => Some(error.to_string()),
                _ => end.map(str::to_owned),
            };
            if let Some(why) = why.filter(|_| !tasks.stopping.is_signaled()) {
                tracing::error!(task = name, why, "A task that must live has ended");
                tasks.lock().insert(name, why);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::health::Health;
    use crate::lifecycle::Lifecycle;

    async fn livez(lifecycle: &Lifecycle, path: &str) -> (u16, String) {
        let mut health = Health::new(std::time::Duration::ZERO);
        health.add(lifecycle.tasks.check());
        let response = health.install(&lifecycle.signals).answer(path, "").await.unwrap();
        let text = response.body().bytes().unwrap();
        (response.status().as_u16(), String::from_utf8(text.to_vec()).unwrap())
    }

    /// Lets all ready tasks run.
    async fn settle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn livez_names_a_task_that_has_ended_or_panicked() {
        let lifecycle = Lifecycle::default();
        let tasks = &lifecycle.tasks;
        tasks.spawn("lives", std::future::pending());
        tasks.spawn_finite("is-done", async {});
        settle().await;
        assert_eq!(livez(&lifecycle, "/livez").await.0, 200);
        tasks.spawn("ends", async {});
        tasks.spawn_finite("panics", async { panic!("oops") });
        settle().await;
        assert_eq!(livez(&lifecycle, "/livez").await.0, 500);
        let (status, text) = livez(&lifecycle, "/livez/tasks").await;
        assert_eq!(status, 500);
        assert!(text.starts_with("internal server error: ends: it has ended; panics: "), "{text}");
        assert!(text.contains("oops"), "{text}");
    }

    #[tokio::test]
    async fn a_task_may_end_once_the_server_stops() {
        let lifecycle = Lifecycle::default();
        let stop = lifecycle.signals.shutdown_initiated.wait();
        lifecycle.tasks.spawn("until-stopped", stop);
        settle().await;
        lifecycle.signals.shutdown_initiated.signal();
        settle().await;
        assert_eq!(lifecycle.tasks.check().check().await, Ok(()));
    }
}
