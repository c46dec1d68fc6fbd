//! A large value kept for a client for a limited time. A client that does not read is not polled, so the lease is ended
//! by another task than the client's request.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use tokio::task::AbortHandle;

/// A value that can be taken away.
pub(crate) struct Lease<T> {
    shared: Arc<Mutex<Shared<T>>>,
    end: Option<AbortHandle>,
}

struct Shared<T> {
    value: Option<T>,
    /// Waker of the task that uses the value.
    waiting: Option<Waker>,
}

impl<T: Send + 'static> Lease<T> {
    pub fn new(value: T) -> Self {
        let shared = Shared { value: Some(value), waiting: None };
        Lease { shared: Arc::new(Mutex::new(shared)), end: None }
    }

    /// Drops the value when the future completes. Only the first call has an effect.
    pub fn until(&mut self, over: impl Future<Output = ()> + Send + 'static) {
        if self.end.is_some() {
            return;
        }
        let shared = self.shared.clone();
        let end = tokio::spawn(async move {
            over.await;
            let (value, waiting) = {
                let mut shared = lock(&shared);
                (shared.value.take(), shared.waiting.take())
            };
            drop(value);
            waiting.into_iter().for_each(Waker::wake);
        });
        self.end = Some(end.abort_handle());
    }

    /// Calls `work` with the value, unless it was taken away.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        lock(&self.shared).value.as_mut().map(work)
    }

    /// Like [`Lease::with`], for a poll that must also be woken when the value is taken away.
    pub fn poll_with<R>(
        &self,
        context: &mut Context<'_>,
        work: impl FnOnce(&mut T, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let mut shared = lock(&self.shared);
        shared.waiting = Some(context.waker().clone());
        shared.value.as_mut().map(|value| work(value, context))
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        if let Some(end) = &self.end {
            end.abort();
        }
    }
}

fn lock<T>(shared: &Mutex<Shared<T>>) -> MutexGuard<'_, Shared<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kevel_test_support::until;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn value_is_dropped_when_its_time_is_up() {
        let value = Arc::new(());
        let mut lease = Lease::new(value.clone());
        lease.until(sleep(Duration::from_secs(60)));
        assert_eq!(lease.with(|value| Arc::strong_count(value)), Some(2));
        sleep(Duration::from_secs(61)).await;
        assert_eq!((lease.with(|_| ()), Arc::strong_count(&value)), (None, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_it_is_woken() {
        let mut lease = Lease::new(());
        lease.until(sleep(Duration::from_secs(60)));
        let gone = std::future::poll_fn(|context| match lease.poll_with(context, |(), _| ()) {
            Some(()) => std::task::Poll::Pending,
            None => std::task::Poll::Ready(()),
        });
        tokio::time::timeout(Duration::from_secs(61), gone).await.unwrap();
    }

    #[tokio::test]
    async fn nothing_is_left_of_a_lease_that_was_given_up() {
        let value = Arc::new(());
        let mut lease = Lease::new(value.clone());
        lease.until(std::future::pending());
        drop(lease);
        until(async || Arc::strong_count(&value) == 1).await;
    }
}
