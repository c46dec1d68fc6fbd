//! Record of turns that hold a worker for too long (feature `long-turns`; nothing otherwise).
//!
//! Counts processor time of the thread, not time on the wall: on a busy machine a turn also waits for a processor. What is
//! recorded names the request and the stack of the first charge after the longest stretch without one: the code that
//! computes without charging is right before it.

#[cfg(not(feature = "long-turns"))]
pub(crate) use off::OnWorker;
#[cfg(feature = "long-turns")]
pub(crate) use on::OnWorker;

#[cfg(not(feature = "long-turns"))]
mod off {
    use crate::meter::ComputeMeter;

    /// Time of a turn on a worker; not recorded.
    #[derive(Debug)]
    pub struct OnWorker;

    impl OnWorker {
        pub(crate) fn begins() -> Self {
            OnWorker
        }

        pub(crate) fn beside() -> Self {
            OnWorker
        }

        pub(crate) fn looks(&mut self) {}

        pub(crate) fn ends(&mut self, _meter: &ComputeMeter) {}
    }
}

#[cfg(feature = "long-turns")]
mod on {
    use std::backtrace::Backtrace;
    use std::io::Write as _;
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use crate::meter::ComputeMeter;

    /// The longest turn on a worker that is not recorded: the budget, and the work between two charges.
    const LONG: Duration = Duration::from_millis(5);
    /// A stretch without a charge whose end is worth a stack.
    const GAP: Duration = Duration::from_millis(1);

    /// Processor time of a turn on a worker.
    #[derive(Debug, Default)]
    pub struct OnWorker {
        begun: Option<Duration>,
        looked: Duration,
        gap: Duration,
        stack: String,
    }

    impl OnWorker {
        pub(crate) fn begins() -> Self {
            let now = thread_time();
            OnWorker { begun: Some(now), looked: now, ..OnWorker::default() }
        }

        pub(crate) fn beside() -> Self {
            OnWorker::default()
        }

        pub(crate) fn looks(&mut self) {
            if self.begun.is_none() {
                return;
            }
            let now = thread_time();
            let gap = now.saturating_sub(self.looked);
            if gap > GAP.max(self.gap) {
                self.gap = gap;
                self.stack = Backtrace::force_capture().to_string();
            }
            // A stack takes milliseconds to name: that time is not the turn's.
            let named = thread_time().saturating_sub(now);
            self.begun = self.begun.map(|begun| begun + named);
            self.looked = now + named;
        }

        pub(crate) fn ends(&mut self, meter: &ComputeMeter) {
            let Some(begun) = self.begun.take() else { return };
            let now = thread_time();
            let took = now.saturating_sub(begun);
            if took > LONG {
                let last = now.saturating_sub(self.looked);
                record(&format!(
                    "{:?} on a worker: {}\n  longest stretch {:?}, last stretch {last:?}\n{}\n",
                    took,
                    meter.label(),
                    self.gap,
                    self.stack
                ));
            }
        }
    }

    fn thread_time() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    }

    /// Adds a record to the file that `KEVEL_LONG_TURNS` names.
    fn record(text: &str) {
        let Some(path) = std::env::var_os("KEVEL_LONG_TURNS") else { return };
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        if let Ok(mut file) = file {
            let _ = file.write_all(text.as_bytes());
        }
    }
}
