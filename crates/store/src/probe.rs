//! Asks an engine whether it works, and does not wait for ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_clock::timer_now;
use tokio::sync::watch as signal;
use tokio::time::Instant;

use crate::{Engine, Error, Result};

/// The question whether an engine works, for health checks: many may ask at once, one question is
/// under way at a time, and who asks often gets the last answer.
#[derive(Clone)]
pub struct Probe {
    engine: Arc<dyn Engine>,
    /// When the question that is under way was asked.
    asked: Arc<Mutex<Option<Instant>>>,
    answered: signal::Sender<Option<ProbeResult>>,
}

#[derive(Clone, Debug)]
struct ProbeResult {
    at: Instant,
    outcome: Result<()>,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

impl Probe {
    /// Nothing is asked yet.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Probe { engine, asked: Arc::default(), answered: signal::Sender::new(None) }
    }

    /// What the engine says, within `timeout`. An answer counts for half as long, as in the reference.
    pub async fn check(&self, timeout: Duration) -> Result<()> {
        let now = timer_now();
        let mut answered = self.answered.subscribe();
        let recent = |answer: &Option<ProbeResult>| {
            answer.as_ref().is_some_and(|answer| answer.at + timeout / 2 > now)
        };
        let asked = self.ask(recent(&answered.borrow()));
        // Who asks while a question is overdue need not wait for it once more.
        let patience = (asked + timeout).saturating_duration_since(now);
        let answer = tokio::time::timeout(patience, answered.wait_for(recent)).await;
        match answer {
            Ok(Ok(answer)) => answer.as_ref().map_or(Ok(()), |answer| answer.outcome.clone()),
            Ok(Err(_)) => Err(Error::closed()),
            Err(_) => Err(Error::Unavailable(format!("no answer within {timeout:?}"))),
        }
    }

    /// Asks, unless that is done already or need not be done. Returns when it was asked.
    fn ask(&self, answered: bool) -> Instant {
        let now = timer_now();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asked) = *asked {
            return asked;
        }
        if answered {
            return now;
        }
        *asked = Some(now);
        let probe = self.clone();
        tokio::spawn(async move {
            let outcome = probe.engine.health().await;
            *probe.asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
            probe.answered.send_replace(Some(ProbeResult { at: timer_now(), outcome }));
        });
        now
    }
}
