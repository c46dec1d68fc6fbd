//! What objects need from elsewhere (addresses, ports): taken before they are written, given back when
//! they were not, or when they need it no more.
//!
//! A request may end anywhere: its client goes, its time is up. What was taken is never left over for
//! that. Taking runs in a task of its own, to its end; a [`Claim`] that nobody writes for gives back what
//! was taken when it is dropped; and the write takes the claim along into a task that ends with both
//! finished. Between these steps the claim has an owner, and nothing of it is under way.

use std::future::Future;
use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_compute::Metered;
use kevel_store::Error;

use crate::future::Pending;

/// Allocates what objects of a kind need (`BeginCreate`, `BeginUpdate`).
pub trait Allocation: Send + Sync + 'static {
    /// Takes what a new object needs and writes it into the object, after admission and before the
    /// object is prepared and checked. A dry run takes nothing. An error refuses the write.
    fn begin_create(self: Arc<Self>, object: Value, dry_run: bool) -> Begin;

    /// The same for an object that replaces another.
    fn begin_update(self: Arc<Self>, object: Value, old: Value, dry_run: bool) -> Begin;

    /// Gives back what an object had that is gone.
    fn after_delete<'a>(&'a self, object: &'a Value) -> Pending<'a, ()>;
}

/// The taking of what a write needs: the object with what it was given, and what was taken.
pub type Begin = Pending<'static, Result<(Value, Box<dyn Taken>), StatusError>>;

/// What was taken for a write.
pub trait Taken: Send + 'static {
    /// Keeps what was taken and gives back what it replaces, if the write came about; gives back
    /// what was taken, if not (`FinishFunc`).
    fn finish(self: Box<Self>, written: bool) -> Pending<'static, ()>;
}

/// What was taken for a write that has not begun yet; given back if it never does.
#[derive(Default)]
pub(crate) struct Claim(Option<Box<dyn Taken>>);

impl Claim {
    /// Takes what a write needs; a caller that does not wait for it leaves nothing behind.
    pub async fn begin(begin: Begin) -> Result<(Value, Claim), StatusError> {
        let taken = to_the_end(async move {
            let (object, taken) = begin.await?;
            Ok((object, Claim(Some(taken))))
        });
        taken.await
    }

    /// Carries out the write, to its end once it has begun, and finishes the claim by what became of
    /// it. A write of which that is not known keeps what it took and what it replaces: whoever looks
    /// after what is taken finds out later. One that was too large leaves the claim, to be tried again with less.
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

    /// Gives back what was taken, unless a write has taken it along.
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

/// Deletes an object and then gives back what it had, both or neither.
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

/// Does work that is not left half done: it goes on when nobody waits for it any more.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(Metered::task(Box::pin(work), "write with allocation")).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and with it everybody who could wait.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Does work in the background, unless the runtime has ended.
fn spawn(work: Pending<'static, ()>) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(Metered::task(work, "allocation"));
    }
}
