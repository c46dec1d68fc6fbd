//! Fair turns of connections with much output.
//!
//! Ready tasks run one after the other. While three hundred clients read lists, all their connections are ready, and a
//! small request would wait for a turn of each. So only as many of them as there are processors are ready at a time,
//! the others wait; and between two such turns the worker polls its sockets.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

/// Bytes from which a turn counts as heavy. Most responses and events are smaller.
const MUCH: usize = 32 << 10;

static PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new(processors))
});

/// Turns of a connection's task.
pub(super) struct Turns {
    permits: Arc<Semaphore>,
    state: State,
}

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum State {
    /// The last turn wrote little: the next one begins when there is work.
    Light,
    /// The last turn wrote much: the next one needs a permit.
    Heavy,
    /// Waiting for a permit, first come, first served.
    Waiting(Waiting<Option<OwnedSemaphorePermit>>),
    /// A turn with a permit.
    Going(Option<OwnedSemaphorePermit>),
    /// The turn is over with more to write. The permit is kept until the worker has polled its sockets and other tasks.
    Resting { rest: Waiting<()>, _permit: Option<OwnedSemaphorePermit> },
}

impl Default for Turns {
    fn default() -> Self {
        Turns { permits: PERMITS.clone(), state: State::Light }
    }
}

impl Turns {
    /// Whether a turn may begin. If not, the task is woken when it may.
    pub fn poll_begin(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.state = match &mut self.state {
                State::Light | State::Going(_) => return Poll::Ready(()),
                State::Resting { rest, .. } => {
                    ready!(rest.as_mut().poll(context));
                    State::Heavy
                }
                State::Heavy => match self.permits.clone().try_acquire_owned() {
                    Ok(permit) => State::Going(Some(permit)),
                    Err(_) => {
                        let permits = self.permits.clone();
                        State::Waiting(Box::pin(async { permits.acquire_owned().await.ok() }))
                    }
                },
                State::Waiting(permit) => State::Going(ready!(permit.as_mut().poll(context))),
            };
        }
    }

    /// Ends a turn that wrote so many bytes. If there is `more` to do at once, the task is woken for it.
    pub fn end(&mut self, written: usize, more: bool, context: &mut Context<'_>) {
        let ended = std::mem::replace(&mut self.state, State::Light);
        if more {
            let permit = if let State::Going(permit) = ended { permit } else { None };
            let mut rest = Box::pin(yield_now());
            // Completes at the second poll only.
            let _ = rest.as_mut().poll(context);
            self.state = State::Resting { rest, _permit: permit };
        } else if written >= MUCH {
            self.state = State::Heavy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    const LITTLE: usize = MUCH - 1;

    fn begins(turns: &mut Turns) -> bool {
        turns.poll_begin(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn end(turns: &mut Turns, written: usize, more: bool) {
        turns.end(written, more, &mut Context::from_waker(Waker::noop()));
    }

    #[test]
    fn who_has_much_to_send_waits_for_others_that_have() {
        let permits = Arc::new(Semaphore::new(1));
        let [mut a, mut b, mut quiet] =
            [(); 3].map(|()| Turns { permits: permits.clone(), ..Turns::default() });
        for turns in [&mut a, &mut b] {
            assert!(begins(turns), "not known yet");
            end(turns, MUCH, true);
        }
        for _ in 0..3 {
            assert!(begins(&mut a));
            assert!(!begins(&mut b), "it is the turn of the other");
            for _ in 0..3 {
                assert!(begins(&mut quiet));
                end(&mut quiet, LITTLE, false);
            }
            end(&mut a, MUCH, true);
            assert!(!begins(&mut b), "the worker has not looked around");
            assert!(!begins(&mut a), "it was the other who asked first");
            std::mem::swap(&mut a, &mut b);
        }
    }

    #[test]
    fn who_waits_for_its_client_or_is_gone_holds_nothing() {
        let permits = Arc::new(Semaphore::new(1));
        let turns = || Turns { permits: permits.clone(), ..Turns::default() };
        let mut blocked = turns();
        end(&mut blocked, MUCH, false);
        assert!(begins(&mut blocked));
        assert_eq!(permits.available_permits(), 0);
        end(&mut blocked, MUCH, false);
        assert_eq!(permits.available_permits(), 1);
        let mut gone = turns();
        end(&mut gone, MUCH, true);
        assert!(begins(&mut gone));
        drop(gone);
        assert_eq!(permits.available_permits(), 1);
        assert!(begins(&mut blocked));
        end(&mut blocked, LITTLE, false);
        assert!(matches!(blocked.state, State::Light), "the next one is free");
    }
}
