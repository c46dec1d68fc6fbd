//! Health probe of an engine, with a deadline.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_clock::timer_now;
use tokio::sync::watch as signal;
use tokio::time::Instant;

use crate::{Engine, Error, Result};

/// Health probe of an engine: concurrent callers share one [`Engine::health`] call, and a recent result is reused.
#[derive(Clone)]
pub struct Probe {
    engine: Arc<dyn Engine>,
    /// Start of the call under way.
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
    /// Makes a probe; nothing is called yet.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Probe { engine, asked: Arc::default(), answered: signal::Sender::new(None) }
    }

    /// Health of the engine, within `timeout`. A result is reused for half that time, as in the reference.
    pub async fn check(&self, timeout: Duration) -> Result<()> {
        let now = timer_now();
        let mut answered = self.answered.subscribe();
        let recent = |answer: &Option<ProbeResult>| {
            answer.as_ref().is_some_and(|answer| answer.at + timeout / 2 > now)
        };
        let asked = self.ask(recent(&answered.borrow()));
        // The deadline counts from the start of the call: a caller that joins an overdue call does not wait for the
        // whole timeout again.
        let patience = (asked + timeout).saturating_duration_since(now);
        let answer = tokio::time::timeout(patience, answered.wait_for(recent)).await;
        match answer {
            Ok(Ok(answer)) => answer.as_ref().map_or(Ok(()), |answer| answer.outcome.clone()),
            Ok(Err(_)) => Err(Error::closed()),
            Err(_) => Err(Error::Unavailable(format!("no answer within {timeout:?}"))),
        }
    }

    /// Starts the health call, unless one is under way or `answered`. Returns the start of the call.
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
