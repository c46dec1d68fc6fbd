//! Retries of webhook calls with backoff.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use super::error::Error;

/// Number of attempts, and the waits between them (upstream: `wait.Backoff`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// Wait after the first failure.
    pub initial: Duration,
    /// Factor of each further wait.
    pub factor: f64,
    /// Fraction by which a wait is extended at random.
    pub jitter: f64,
    /// Most attempts.
    pub steps: usize,
}

impl Default for Backoff {
    /// Backoff of authentication and authorization webhooks.
    fn default() -> Self {
        Backoff::starting_with(Duration::from_millis(500))
    }
}

impl Backoff {
    /// The webhooks' backoff with another first wait.
    pub fn starting_with(initial: Duration) -> Self {
        Backoff { initial, factor: 1.5, jitter: 0.2, steps: 5 }
    }

    /// Calls, and retries [transient](Error::is_transient) failures.
    pub async fn call<T, F>(&self, call: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.call_while(call, Error::is_transient).await
    }

    /// Calls, and retries failures that are `worth` it.
    pub async fn call_while<T, F>(
        &self,
        mut call: impl FnMut() -> F,
        worth: impl Fn(&Error) -> bool,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut waits = self.waits();
        loop {
            match call().await {
                Err(error) if worth(&error) => match waits.next() {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return Err(error),
                },
                result => return result,
            }
        }
    }

    fn waits(&self) -> impl Iterator<Item = Duration> {
        let Backoff { initial, factor, jitter, steps } = *self;
        let waits = std::iter::successors(Some(initial), move |wait| Some(wait.mul_f64(factor)));
        waits.take(steps.saturating_sub(1)).map(move |wait| wait.mul_f64(1.0 + jitter * random()))
    }
}

/// A random number from 0 to 1. It need not be secret.
fn random() -> f64 {
    (RandomState::new().hash_one(()) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use kevel_clock::timer_now;

    use super::*;

    fn status(code: StatusCode) -> Error {
        Error::Status { code, message: String::new(), retry_after: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_made_five_times_with_growing_waits() {
        let start = timer_now();
        let mut calls = Vec::new();
        let result: Result<(), _> = Backoff::default()
            .call(|| {
                calls.push(start.elapsed().as_secs_f64());
                async { Err(status(StatusCode::INTERNAL_SERVER_ERROR)) }
            })
            .await;
        assert!(result.is_err());
        let earliest = [0.0, 0.5, 1.25, 2.375, 4.0625];
        assert_eq!(calls.len(), earliest.len());
        for (call, earliest) in calls.iter().zip(earliest) {
            assert!((earliest..=earliest * 1.2 + 0.01).contains(call), "{call} {earliest}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_stays_is_told_at_once() {
        let mut calls = 0;
        let result: Result<(), _> = Backoff::default()
            .call(|| {
                calls += 1;
                async { Err(status(StatusCode::FORBIDDEN)) }
            })
            .await;
        assert_eq!(result, Err(status(StatusCode::FORBIDDEN)));
        assert_eq!(calls, 1);
    }
}
