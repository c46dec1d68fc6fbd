//! A clock that a test moves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, SystemTime};

use crate::{Clock, Moment, monotonic_now};

/// A clock that stands still until a test advances it. Clones are handles of the same clock.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<ManualState>);

impl ManualClock {
    /// A clock that stands still at a wall time.
    pub fn new(start: SystemTime) -> Self {
        let (begin, progress) = (Moment::at(monotonic_now()), Mutex::default());
        ManualClock(Arc::new(ManualState { start, begin, progress }))
    }

    /// A clock that stands still at the operating system's current time: certificates of a test's clients are valid.
    pub fn at_present() -> Self {
        ManualClock::new(Clock::system().now())
    }

    /// The clock for a server.
    pub fn clock(&self) -> Clock {
        Clock(Some(self.0.clone()))
    }

    /// Moves wall time and monotonic time, and wakes whatever waits for a moment that has come.
    pub fn advance(&self, duration: Duration) {
        let mut progress = self.0.progress();
        progress.elapsed += duration;
        let now = self.0.begin + progress.elapsed;
        let (due, waiting) =
            std::mem::take(&mut progress.wakers).into_iter().partition(|(at, _)| *at <= now);
        progress.wakers = waiting;
        drop(progress);
        let due: Vec<(Moment, Waker)> = due;
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

#[derive(Debug)]
pub(crate) struct ManualState {
    start: SystemTime,
    begin: Moment,
    progress: Mutex<ManualProgress>,
}

#[derive(Debug, Default)]
struct ManualProgress {
    /// Time that the test has let pass.
    elapsed: Duration,
    wakers: Vec<(Moment, Waker)>,
}

impl ManualState {
    pub(crate) fn now(&self) -> SystemTime {
        self.start + self.progress().elapsed
    }

    pub(crate) fn moment(&self) -> Moment {
        self.begin + self.progress().elapsed
    }

    /// Registers a waker, once for each moment and task. If the moment has come already, it is woken now.
    pub(crate) fn wake_at(&self, moment: Moment, waker: &Waker) {
        let mut progress = self.progress();
        if self.begin + progress.elapsed >= moment {
            drop(progress);
            return waker.wake_by_ref();
        }
        let known = |(at, known): &(Moment, Waker)| *at == moment && known.will_wake(waker);
        if !progress.wakers.iter().any(known) {
            progress.wakers.push((moment, waker.clone()));
        }
    }

    fn progress(&self) -> MutexGuard<'_, ManualProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn manual_clock_stands_still_until_advanced() {
        let start = SystemTime::UNIX_EPOCH + HOUR;
        let manual = ManualClock::new(start);
        let (clock, begin) = (manual.clock(), manual.clock().moment());
        assert_eq!((clock.now(), clock.since(begin)), (start, Duration::ZERO));
        manual.clone().advance(HOUR);
        assert_eq!((clock.now(), clock.since(begin)), (start + HOUR, HOUR));
        assert_eq!(clock.since(begin + 2 * HOUR), Duration::ZERO);
    }

    #[test]
    fn wakers_are_woken_once_when_their_moment_comes() {
        let manual = ManualClock::at_present();
        let (clock, woken) = (manual.clock(), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        let count = || woken.0.load(Ordering::Relaxed);
        let at = clock.moment() + HOUR;
        for _ in 0..2 {
            assert!(clock.wake_at(at, &waker));
        }
        manual.advance(HOUR - Duration::from_nanos(1));
        assert_eq!(count(), 0);
        manual.advance(Duration::from_nanos(1));
        assert_eq!(count(), 1);
        manual.advance(HOUR);
        assert_eq!(count(), 1);
        assert!(clock.wake_at(at, &waker));
        assert_eq!(count(), 2);
    }

    #[test]
    fn system_clock_moves_with_the_machine_and_wakes_nothing() {
        let clock = Clock::system();
        let (before, at) = (clock.moment(), clock.moment() + HOUR);
        assert!(
            clock.moment() >= before && clock.now() > SystemTime::UNIX_EPOCH + 50 * 365 * 24 * HOUR
        );
        assert!(!clock.wake_at(at, Waker::noop()));
        assert!(at + Duration::MAX > at + HOUR);
    }
}
