//! Streams of a connection, run by its task.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A request and its response.
type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Streams run by one task: all that are ready are polled in one turn.
#[derive(Default)]
pub(super) struct Streams {
    ready: Arc<Ready>,
    running: Vec<Option<Running>>,
    /// Free entries of `running`.
    free: Vec<usize>,
}

struct Running {
    stream: Stream,
    turn: Arc<Turn>,
    waker: Waker,
}

impl Streams {
    /// The executor for new streams.
    pub fn start(&self) -> Start {
        Start(self.ready.clone())
    }

    /// Polls the ready streams, and returns whether there were any. If not, the task is woken for the next.
    pub fn poll(&mut self, context: &Context<'_>) -> bool {
        let (started, turns) = {
            let mut queues = self.ready.lock();
            if queues.started.is_empty() && queues.turns.is_empty() {
                queues.task = Some(context.waker().clone());
                return false;
            }
            (std::mem::take(&mut queues.started), std::mem::take(&mut queues.turns))
        };
        turns.into_iter().for_each(|place| self.go_on(place));
        for stream in started {
            let place = self.place(stream);
            self.go_on(place);
        }
        true
    }

    fn place(&mut self, stream: Stream) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.running.push(None);
            self.running.len() - 1
        });
        let ready = self.ready.clone();
        let turn = Arc::new(Turn { place, queued: AtomicBool::new(false), ready });
        let waker = Waker::from(turn.clone());
        if let Some(free) = self.running.get_mut(place) {
            *free = Some(Running { stream, turn, waker });
        }
        place
    }

    fn go_on(&mut self, place: usize) {
        // The slot may have been reused; the new stream gets one spurious poll.
        let Some(slot) = self.running.get_mut(place) else { return };
        let Some(Running { stream, turn, waker }) = slot else { return };
        turn.queued.store(false, Ordering::Release);
        if stream.as_mut().poll(&mut Context::from_waker(waker)) == Poll::Ready(()) {
            *slot = None;
            self.free.push(place);
        }
    }
}

/// Executor that starts streams.
#[derive(Clone)]
pub(super) struct Start(Arc<Ready>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Start {
    fn execute(&self, stream: F) {
        // A stream's output is limited by its client's reading. A share of the task's budget (see `tokio::task::coop`)
        // would split the turn of a connection with many streams.
        self.0.lock().started.push(Box::pin(tokio::task::unconstrained(stream)));
    }
}

/// Streams to be polled.
#[derive(Default)]
struct Ready(Mutex<Queues>);

#[derive(Default)]
struct Queues {
    started: Vec<Stream>,
    turns: Vec<usize>,
    /// Waker of the connection's task, while it waits.
    task: Option<Waker>,
}

impl Ready {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waker of a stream.
struct Turn {
    place: usize,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut queues = self.ready.lock();
        queues.turns.push(self.place);
        let task = queues.task.take();
        drop(queues);
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::rt::Executor;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::Notify;

    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn many_streams_wake_their_task_once() {
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(woken.clone());
        let context = Context::from_waker(&waker);
        let (event, done) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let mut streams = Streams::default();
        for _ in 0..100 {
            let (event, done) = (event.clone(), done.clone());
            streams.start().execute(async move {
                event.notified().await;
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert!(streams.poll(&context), "they begin");
        assert!(!streams.poll(&context), "they wait");
        event.notify_waiters();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(streams.poll(&context));
        assert_eq!(done.load(Ordering::Relaxed), 100);
        assert!(!streams.poll(&context), "they have ended");
        assert_eq!(streams.free.len(), 100);
    }
}
