//! Futures whose turns are metered (feature `runtime`).

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::meter::ComputeMeter;
use crate::permits::Acquire;
use crate::turn::ComputeTurn;

/// The longest wait of a turn that leaves its worker, for another thread to take the worker over. If none does in time, the turn
/// goes on as the worker and leaves again after its next budget.
const HANDOVER: Duration = Duration::from_millis(20);

/// Future whose turns are charged to a meter, and run beside the runtime's workers once it is heavy.
#[derive(Debug)]
pub struct Metered<F> {
    work: F,
    meter: ComputeMeter,
    /// Whether a turn had a permit.
    begun: bool,
    /// Whether each turn begins on a worker again: one long turn says nothing about the next.
    lasting: bool,
    acquire: Option<Acquire>,
}

impl<F> Metered<F> {
    /// Meters a request.
    pub fn new(work: F, meter: ComputeMeter) -> Self {
        Metered { work, meter, begun: false, lasting: false, acquire: None }
    }

    /// Meters a task that goes on for as long as the server.
    pub fn task(work: F, name: &str) -> Self {
        Metered { lasting: true, ..Metered::new(work, ComputeMeter::exempt(name)) }
    }
}

impl<F: Future + Unpin> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if this.lasting || !this.meter.is_heavy() || ComputeTurn::is_beside() {
            let _turn = ComputeTurn::begin(&this.meter, leave_worker);
            return Pin::new(&mut this.work).poll(context);
        }
        let (flow, begun) = (this.meter.flow(), this.begun);
        let acquire = this.acquire.get_or_insert_with(|| Acquire::new(flow, begun));
        let Poll::Ready(permit) = acquire.poll(context) else { return Poll::Pending };
        this.acquire = None;
        this.begun = true;
        beside_workers(|| {
            let _turn = ComputeTurn::begin_beside(&this.meter, leave_worker, permit);
            Pin::new(&mut this.work).poll(context)
        })
    }
}

/// Ends the turn if so many bytes make the request heavy: the next turn runs beside the workers.
pub async fn expect(meter: &ComputeMeter, bytes: usize) {
    if meter.expect(bytes) {
        tokio::task::yield_now().await;
    }
}

/// Computes beside the runtime's workers, whose other tasks go on meanwhile. On a runtime of one thread, as tests have,
/// there is nowhere else.
fn beside_workers<T>(compute: impl FnOnce() -> T) -> T {
    if has_workers() { tokio::task::block_in_place(compute) } else { compute() }
}

fn has_workers() -> bool {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    matches!(flavor, Ok(RuntimeFlavor::MultiThread))
}

/// Leaves the worker in the middle of a turn ([`Leave`](crate::Leave)).
///
/// The runtime queues the worker for its pool of blocking threads, and takes it back if no thread has it when the function
/// returns. Threads take from the pool in order: when one has come to a job behind the worker, the worker is taken.
pub fn leave_worker(wait: &mut dyn FnMut()) {
    beside_workers(|| {
        wait();
        if has_workers() {
            let (taken, is_taken) = mpsc::sync_channel(1);
            drop(tokio::task::spawn_blocking(move || taken.send(())));
            let _ = is_taken.recv_timeout(HANDOVER);
        }
    });
}

#[cfg(test)]
mod tests {
    use kevel_clock::{Stopwatch, monotonic_now};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::meter::ComputeFlow;
    use crate::turn::charge;

    const HEAVY: usize = 1 << 20;

    /// Keeps a processor busy, and charges for it.
    fn compute(time: Duration) {
        let until = monotonic_now() + time;
        while monotonic_now() < until {
            charge(10);
        }
    }

    fn request(user: &str, announced: usize, time: Duration) -> impl Future<Output = ()> + Send {
        let meter = ComputeMeter::of(ComputeFlow::of(user));
        let inner = meter.clone();
        let work = async move {
            expect(&inner, announced).await;
            compute(time);
        };
        Metered::new(Box::pin(work), meter)
    }

    fn one_worker() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    }

    /// Counts the turns of another task while a request computes on a runtime with one worker.
    fn turns_beside(request: impl Future<Output = ()> + Send + 'static) -> usize {
        one_worker().block_on(async {
            let heavy = tokio::spawn(request);
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
            turns.load(Ordering::Relaxed)
        })
    }

    #[test]
    fn other_tasks_go_on_while_an_announced_request_computes() {
        let turns = turns_beside(request("jane", HEAVY, Duration::from_secs(1)));
        assert!(turns > 10, "another task had {turns} turns in a second");
    }

    #[test]
    fn other_tasks_go_on_while_a_small_request_computes() {
        let turns = turns_beside(request("jane", 0, Duration::from_secs(1)));
        assert!(turns > 10, "another task had {turns} turns in a second");
    }

    /// Eight requests of one user want all processors for 8 seconds; one of another user wants 50 ms.
    #[test]
    fn heavy_requests_of_one_user_do_not_delay_another() {
        one_worker().block_on(async {
            let heavy: Vec<_> =
                (0..8).map(|_| tokio::spawn(request("joe", 0, Duration::from_secs(1)))).collect();
            tokio::time::sleep(Duration::from_millis(100)).await;
            let started = Stopwatch::start();
            tokio::spawn(request("jane", HEAVY, Duration::from_millis(50))).await.unwrap();
            let took = started.elapsed();
            heavy.iter().for_each(tokio::task::JoinHandle::abort);
            assert!(took < Duration::from_millis(1000), "{took:?}");
        });
    }

    #[test]
    fn wait_for_a_permit_can_be_dropped() {
        let runtime = one_worker();
        runtime.block_on(async {
            let count = std::thread::available_parallelism().map_or(1, usize::from);
            let heavy: Vec<_> = (0..count)
                .map(|_| tokio::spawn(request("max", HEAVY, Duration::from_millis(500))))
                .collect();
            let waiting = request("max", HEAVY, Duration::ZERO);
            let _ = tokio::time::timeout(Duration::from_millis(20), waiting).await;
            for heavy in heavy {
                heavy.await.unwrap();
            }
            request("max", HEAVY, Duration::ZERO).await;
        });
    }

    #[tokio::test]
    async fn runtime_of_one_thread_computes_where_it_is() {
        request("jane", HEAVY, Duration::from_millis(20)).await;
    }
}
