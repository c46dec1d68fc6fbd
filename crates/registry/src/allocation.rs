//! Allocation of cluster IPs and ports: taken before an object is written, and released if the write fails or the
//! object no longer needs them.
//!
//! A request may be cancelled anywhere, by its client or its deadline; allocations must not leak then. Allocating runs
//! in a task of its own, to its end; a dropped [`Claim`] releases its allocations; and a write moves the claim into a
//! task that completes both. Between these steps the claim has an owner, and no part of it is running.

use std::future::Future;
use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_compute::Metered;
use kevel_store::Error;

use kevel_component::future::Pending;

/// Allocates values for a kind's objects (upstream: `BeginCreate`, `BeginUpdate`).
pub trait Allocation: Send + Sync + 'static {
    /// Allocates for a new object and writes the values into it, after admission and before the object is prepared and
    /// validated. A dry run allocates nothing. An error refuses the write.
    fn begin_create(self: Arc<Self>, object: Value, dry_run: bool) -> Begin;

    /// Allocates for an object that replaces `old`.
    fn begin_update(self: Arc<Self>, object: Value, old: Value, dry_run: bool) -> Begin;

    /// Releases the allocations of a deleted object.
    fn after_delete<'a>(&'a self, object: &'a Value) -> Pending<'a, ()>;
}

/// A running allocation: results in the completed object and its allocations.
pub type Begin = Pending<'static, Result<(Value, Box<dyn PendingAllocations>), StatusError>>;

/// Allocations made for a write.
pub trait PendingAllocations: Send + 'static {
    /// After a write, keeps the allocations and releases those that they replace; after a failed one, releases the
    /// allocations (upstream: `FinishFunc`).
    fn finish(self: Box<Self>, written: bool) -> Pending<'static, ()>;
}

/// Allocations of a write that has not begun; released on drop.
#[derive(Default)]
pub(crate) struct Claim(Option<Box<dyn PendingAllocations>>);

impl Claim {
    /// Allocates; a caller that is cancelled leaks nothing.
    pub async fn begin(begin: Begin) -> Result<(Value, Claim), StatusError> {
        let taken = to_the_end(async move {
            let (object, taken) = begin.await?;
            Ok((object, Claim(Some(taken))))
        });
        taken.await
    }

    /// Runs the write to its end once begun, and finishes the claim by its result. If the result is unknown, both old
    /// and new allocations are kept, and the repair controllers release them later. If the object was too large, the
    /// claim is kept for another try.
    pub async fn write<T: Send + 'static>(
        &mut self,
        write: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let Some(taken) = self.0.take() else { return write.await };
        let finished = to_the_end(async move {
            let result = write.await;
            let mut left = Claim::default();
            match result {
                Err(Error::Unavailable(_)) => drop(taken),
                Err(Error::TooLarge(_)) => left = Claim(Some(taken)),
                _ => taken.finish(result.is_ok()).await,
            }
            (result, left)
        });
        let (result, left) = finished.await;
        *self = left;
        result
    }

    /// Releases the allocations, unless a write has taken them.
    pub async fn give_back(mut self) {
        if let Some(taken) = self.0.take() {
            to_the_end(taken.finish(false)).await;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(taken) = self.0.take() {
            spawn(taken.finish(false));
        }
    }
}

/// Deletes an object and then releases its allocations, both or neither.
pub(crate) async fn delete<T: Send + 'static>(
    allocation: Option<Arc<dyn Allocation>>,
    object: Value,
    delete: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let Some(allocation) = allocation else { return delete.await };
    let deleted = to_the_end(async move {
        let result = delete.await?;
        allocation.after_delete(&object).await;
        Ok(result)
    });
    deleted.await
}

/// Runs work in a task of its own, which continues when the caller is cancelled.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(Metered::task(Box::pin(work), "write with allocation")).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and so is every caller.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Runs work in the background, unless the runtime has ended.
fn spawn(work: Pending<'static, ()>) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(Metered::task(work, "allocation"));
    }
}
