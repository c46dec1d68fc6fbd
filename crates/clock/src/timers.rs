//! Waiting on a clock.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use crate::{Clock, Moment};

impl Clock {
    /// Waits for a moment: of the machine's time, or until a test has advanced its clock so far.
    pub async fn sleep_until(&self, moment: Moment) {
        let Some(manual) = &self.0 else {
            return tokio::time::sleep_until(moment.instant().into()).await;
        };
        poll_fn(|context| {
            if manual.moment() >= moment {
                return Poll::Ready(());
            }
            manual.wake_at(moment, context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Waits for a duration.
    pub async fn sleep(&self, duration: Duration) {
        match &self.0 {
            // Not by a moment: a test may have paused the runtime's time, which moments do not follow.
            None => tokio::time::sleep(duration).await,
            Some(_) => self.sleep_until(self.moment() + duration).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::ManualClock;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn sleepers_wake_when_the_test_advances_the_clock() {
        let manual = ManualClock::at_present();
        let clock = manual.clock();
        let sleeper = tokio::spawn(async move { clock.sleep(HOUR).await });
        tokio::task::yield_now().await;
        manual.advance(HOUR / 2);
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        manual.advance(HOUR / 2);
        timeout(Duration::from_secs(30), sleeper).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn system_sleep_follows_the_time_of_the_runtime() {
        let before = crate::timer_now();
        Clock::system().sleep(HOUR).await;
        assert!(crate::timer_now() - before >= HOUR);
    }
}
