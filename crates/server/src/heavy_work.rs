//! Work that only computes, beside the runtime's workers.
//!
//! A turn of a request (one `poll`) that decodes, checks and merges three megabytes takes long, and
//! while it does its worker serves nobody else: no `/livez`, no handshake. [`Weight`] is how the places
//! that know what is coming say so, [`HeavyWork`] runs the turns of a request that is heavy apart.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::future::Pending;

/// From how many bytes on something is heavy: what takes some milliseconds to build a tree of, to
/// check and to write.
const HEAVY: usize = 64 << 10;

/// Whether a request is heavy. Clones are about the same request.
#[derive(Clone, Debug, Default)]
pub struct Weight(Arc<AtomicBool>);

impl Weight {
    /// Says that so many bytes are about to be worked on. If they are many, that is done in another
    /// turn than this one.
    pub async fn weigh(&self, bytes: usize) {
        if bytes > HEAVY && !self.0.swap(true, Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
    }

    fn is_heavy(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Who computes beside the workers at the same time: as many as there are processors, which the
/// system divides among them and the workers. Those who go on (after the store has answered, say) do
/// not queue up with those who begin: their turns are short, and others wait for what they hold.
struct Permits {
    beginning: Arc<Semaphore>,
    going_on: Arc<Semaphore>,
}

static PERMITS: LazyLock<Permits> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let permits = || Arc::new(Semaphore::new(processors));
    Permits { beginning: permits(), going_on: permits() }
});

type Acquire = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

/// A request whose turns run beside the workers once it is heavy.
pub struct HeavyWork<'a, T> {
    work: Pending<'a, T>,
    weight: Weight,
    begun: bool,
    /// A permit that is waited for.
    waiting: Option<Acquire>,
}

impl<T> std::fmt::Debug for HeavyWork<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeavyWork").field("weight", &self.weight).finish_non_exhaustive()
    }
}

impl<'a, T> HeavyWork<'a, T> {
    /// Work that may turn out heavy.
    pub fn new(work: Pending<'a, T>, weight: Weight) -> Self {
        HeavyWork { work, weight, begun: false, waiting: None }
    }

    fn poll_permit(&mut self, context: &mut Context<'_>) -> Poll<Option<OwnedSemaphorePermit>> {
        let permits = if self.begun { &PERMITS.going_on } else { &PERMITS.beginning };
        let waiting = match &mut self.waiting {
            Some(waiting) => waiting,
            None => match permits.clone().try_acquire_owned() {
                Ok(permit) => return Poll::Ready(Some(permit)),
                Err(_) => {
                    let permits = permits.clone();
                    self.waiting.insert(Box::pin(async { permits.acquire_owned().await.ok() }))
                }
            },
        };
        let permit = waiting.as_mut().poll(context);
        if permit.is_ready() {
            self.waiting = None;
        }
        permit
    }
}

impl<T> Future for HeavyWork<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        if !this.weight.is_heavy() {
            return this.work.as_mut().poll(context);
        }
        let Poll::Ready(_permit) = this.poll_permit(context) else { return Poll::Pending };
        this.begun = true;
        beside_workers(|| this.work.as_mut().poll(context))
    }
}

/// Computes beside the runtime's workers, whose other tasks go on meanwhile. On a runtime of one
/// thread, as tests have, there is nowhere else.
pub fn beside_workers<T>(compute: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(compute),
        _ => compute(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    /// Keeps a processor busy.
    fn compute(time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }

    fn request(weight: &Weight, time: Duration) -> HeavyWork<'static, ()> {
        let inner = weight.clone();
        let work = async move {
            inner.weigh(HEAVY + 1).await;
            compute(time);
        };
        HeavyWork::new(Box::pin(work), weight.clone())
    }

    /// One worker, which would be busy for the whole time.
    #[test]
    fn other_tasks_go_on_while_a_request_computes() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let heavy = tokio::spawn(request(&Weight::default(), Duration::from_secs(2)));
            let turns = Arc::new(AtomicUsize::new(0));
            let counted = turns.clone();
            let light = tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
            heavy.await.unwrap();
            light.abort();
            let turns = turns.load(Ordering::Relaxed);
            assert!(turns > 10, "another task had {turns} turns in two seconds");
        });
    }

    /// The permits are those of all tests in the process: this takes them all and waits for more.
    #[test]
    fn those_who_wait_for_a_permit_can_be_given_up() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let all = PERMITS.beginning.clone();
            let count = std::thread::available_parallelism().map_or(1, usize::from);
            let taken = all.acquire_many_owned(u32::try_from(count).unwrap()).await.unwrap();
            let waiting = request(&Weight::default(), Duration::ZERO);
            let late = tokio::time::timeout(Duration::from_millis(50), waiting).await;
            assert!(late.is_err(), "it had no permit");
            drop(taken);
            request(&Weight::default(), Duration::ZERO).await;
        });
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_computes_where_it_is() {
        let weight = Weight::default();
        request(&weight, Duration::ZERO).await;
        assert!(weight.is_heavy());
    }
}
