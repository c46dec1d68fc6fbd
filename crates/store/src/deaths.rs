//! Supervision of the store's background tasks and threads, for health checks.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use kevel_compute::Metered;
use tokio::task::JoinSet;

use crate::{Error, Result};

/// Background tasks and threads that have ended or panicked, by name, with the reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deaths(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Deaths {
    /// Fails if a task or thread has ended; the error names it.
    pub fn report(&self) -> Result<()> {
        let deaths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match deaths.is_empty() {
            true => Ok(()),
            false => {
                let said: Vec<_> =
                    deaths.iter().map(|(name, why)| format!("{name} {why}")).collect();
                Err(Error::Unavailable(said.join("; ")))
            }
        }
    }

    fn note(&self, name: &'static str, why: String) {
        tracing::error!("{name} {why}; it will not go on until the server is started again");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, why);
    }

    /// Runs a task that is expected never to end, and notes its end or panic. Dropping this future stops the task
    /// without a note.
    pub async fn watch_over(
        self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        // In a task of its own: a panic ends only that task, and this one notes it.
        let mut task = JoinSet::new();
        task.spawn(Metered::task(Box::pin(work), name));
        match task.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                self.note(name, panicked(&*error.into_panic()));
            }
            _ => self.note(name, "has ended".to_owned()),
        }
    }

    /// Runs a thread's work and notes a panic. Returns whether it ended without one.
    pub fn run(&self, name: &'static str, work: impl FnOnce()) -> bool {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(()) => true,
            Err(panic) => {
                self.note(name, panicked(&*panic));
                false
            }
        }
    }
}

/// Message of a panic.
fn panicked(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("has panicked: {}", said.unwrap_or("it does not say why"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_ends_or_panics_is_named() {
        let deaths = Deaths::default();
        assert_eq!(deaths.report(), Ok(()));
        deaths.clone().watch_over("the feed", async { panic!("no {}", "way") }).await;
        deaths.clone().watch_over("the compactor", async {}).await;
        assert!(deaths.run("the reader", || {}));
        assert!(!deaths.run("the writer", || panic!("out of ink")));
        let expected = "store unavailable: the compactor has ended; the feed has panicked: no way; \
                        the writer has panicked: out of ink";
        assert_eq!(deaths.report().unwrap_err().to_string(), expected);
        let goes_on = tokio::spawn(deaths.clone().watch_over("x", std::future::pending()));
        tokio::task::yield_now().await;
        goes_on.abort();
        assert!(goes_on.await.unwrap_err().is_cancelled());
        assert_eq!(deaths.report().unwrap_err().to_string(), expected, "it was asked to end");
    }
}
