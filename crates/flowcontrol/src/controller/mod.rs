//! Priority and fairness controller (upstream: configController).

mod allocation;
mod demand;
mod digestion;
mod levels;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_clock::timer_now;
use tokio::time::{Instant, timeout_at};

pub use self::demand::SeatDemand;
pub use self::digestion::Digested;
use self::digestion::Objects;
pub use self::levels::Limits;
use self::levels::{Level, Levels};
use crate::admitted::{Admitted, Place, Rejected, Started, Waiting};
use crate::configuration::{Configuration, FlowSchema};
use crate::digest::{RequestDetails, RequestDigest};
use crate::observer::{ExecutionType, Observer};
use crate::priority_level::{PriorityLevel, Signal};
use crate::queue_set::Arrival;
use crate::work_estimate::WorkEstimate;

/// Interval at which lending between levels is adjusted.
pub const BORROWING_ADJUSTMENT_PERIOD: Duration = Duration::from_secs(10);
/// Maximum queue wait of a request.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Fraction of a request's deadline that it may wait in a queue (1/n).
const WAIT_PART: u32 = 4;

/// Decides which requests are executed now, which wait, and which are rejected.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use kevel_flowcontrol::{Controller, RequestDigest, Started, Unobserved, WorkEstimator};
/// # use kevel_clock::timer_now;
/// let controller = Controller::new(600, Arc::new(Unobserved));
/// let groups = ["system:authenticated".to_owned()];
/// let digest = RequestDigest {
///     user: "jane",
///     groups: &groups,
///     verb: "get",
///     path: "/version",
///     ..RequestDigest::default()
/// };
/// let flow_schema = controller.classify(&digest);
/// assert_eq!(flow_schema.name(), "catch-all");
/// let estimate = WorkEstimator::default().other();
/// let wait_until = timer_now() + Duration::from_secs(15);
/// match controller.start(&digest, flow_schema, estimate, wait_until) {
///     Started::Admitted(seats) => drop(seats), // when the request has been answered
///     _ => unreachable!("there are seats enough"),
/// }
/// ```
pub struct Controller {
    server_limit: u32,
    configuration: ArcSwap<Configuration>,
    /// Flows are hashed with a key of this server's own.
    hasher: RandomState,
    observer: Arc<dyn Observer>,
    signal: Arc<Signal>,
    /// State behind the configuration; locked by every change.
    state: Mutex<ControllerState>,
}

struct ControllerState {
    /// Objects of the last `configure`.
    objects: Objects,
    levels: Levels,
    fair_fraction: f64,
}

impl Controller {
    /// A controller of `server_limit` seats (`--max-requests-inflight` and `--max-mutating-requests-inflight`
    /// together), with the mandatory configuration.
    pub fn new(server_limit: u32, observer: Arc<dyn Observer>) -> Arc<Self> {
        let signal = Arc::new(Signal::default());
        let mut levels = Levels::new();
        let objects = Objects::default();
        let digestion = digestion::Digestion {
            server_limit,
            observer: &*observer,
            signal: &signal,
            now: timer_now(),
        };
        let digested = digestion.digest(&objects, &mut levels);
        let state = ControllerState { objects, levels, fair_fraction: digested.fair_fraction };
        Arc::new(Controller {
            server_limit,
            configuration: ArcSwap::from_pointee(digested.configuration),
            hasher: RandomState::new(),
            observer,
            signal,
            state: Mutex::new(state),
        })
    }

    /// Finds the flow schema of a request. Takes no lock.
    pub fn classify(&self, digest: &RequestDigest<'_>) -> Arc<FlowSchema> {
        self.configuration.load().classify(digest).clone()
    }

    /// Admits a classified request, queues it, or rejects it.
    pub fn start(
        &self,
        digest: &RequestDigest<'_>,
        flow_schema: Arc<FlowSchema>,
        estimate: WorkEstimate,
        wait_until: Instant,
    ) -> Started {
        let now = timer_now();
        let mut flow_schema = flow_schema;
        loop {
            flow_schema.observer().estimated_seats(estimate.max_seats());
            let hash = self.hash(&flow_schema, digest);
            let details = RequestDetails::new(digest);
            let arrival = flow_schema.level.arrive(now, &flow_schema, details, estimate, hash);
            let place = |slot| Place {
                flow_schema: flow_schema.clone(),
                slot,
                execution: ExecutionType::of_verb(digest.verb),
                arrived: now,
            };
            return match arrival {
                Some(Arrival::Executing(slot)) => {
                    Started::Admitted(Admitted::new(place(slot), now))
                }
                Some(Arrival::Waiting(slot)) => {
                    Started::Waiting(Waiting::new(place(slot), wait_until))
                }
                Some(Arrival::Rejected(reason)) => {
                    Started::Rejected(Rejected::new(flow_schema, reason, now, now))
                }
                // Its level was removed since it was classified: classify again in the new configuration.
                None => {
                    flow_schema = self.classify(digest);
                    continue;
                }
            };
        }
    }

    /// Classifies a request, estimates it, and waits for its seats or a rejection.
    pub async fn admit(
        &self,
        digest: &RequestDigest<'_>,
        estimate: impl FnOnce(&FlowSchema) -> WorkEstimate,
        wait_until: Instant,
    ) -> Result<Admitted, Rejected> {
        let flow_schema = self.classify(digest);
        let estimate = estimate(&flow_schema);
        match self.start(digest, flow_schema, estimate, wait_until) {
            Started::Admitted(admitted) => Ok(admitted),
            Started::Waiting(waiting) => waiting.await,
            Started::Rejected(rejected) => Err(rejected),
        }
    }

    /// Replaces all PriorityLevelConfigurations and FlowSchemas (v1, with defaults). Returns the conditions to write
    /// and the errors to log.
    pub fn configure(
        &self,
        priority_levels: &[impl Borrow<Value>],
        flow_schemas: &[impl Borrow<Value>],
        now: Time,
    ) -> Digested {
        let objects = Objects::new(
            priority_levels.iter().map(Borrow::borrow),
            flow_schemas.iter().map(Borrow::borrow),
        );
        let ignored = objects.ignored.clone();
        let found = |name: &str| objects.has_level(name);
        let status_updates =
            digestion::status_updates(flow_schemas.iter().map(Borrow::borrow), found, now);
        let mut state = self.lock();
        state.objects = objects;
        self.digest(&mut state);
        Digested { status_updates, ignored }
    }

    /// Adjusts lending periodically, removes levels that have drained, and dispatches queued requests when lingering
    /// seats are released. Runs as long as the server does.
    pub async fn run(&self) {
        let mut adjust_at = timer_now();
        loop {
            let now = timer_now();
            if self.signal.take_reap() {
                self.digest(&mut self.lock());
            }
            if now >= adjust_at {
                self.adjust();
                adjust_at = now + BORROWING_ADJUSTMENT_PERIOD;
            }
            let alarms = self.levels().into_iter().filter_map(|level| level.tick(now));
            let until = alarms.min().map_or(adjust_at, |alarm| alarm.min(adjust_at));
            // After the notification or the timeout, check everything again.
            let _ = timeout_at(until, self.signal.notify.notified()).await;
        }
    }

    /// Adjusts lending between levels now.
    pub fn adjust(&self) {
        let mut state = self.lock();
        let now = timer_now();
        state.fair_fraction = levels::adjust(&mut state.levels, self.server_limit, now);
    }

    /// Calls `read` for each level, in order of name. Also returns the fair fraction.
    pub(crate) fn read_levels<T>(
        &self,
        mut read: impl FnMut(&PriorityLevel, Limits, &SeatDemand, f64) -> T,
    ) -> (Vec<T>, f64) {
        let state = self.lock();
        let of = |level: &Level| read(&level.level, level.limits, &level.demand, level.target);
        (state.levels.values().map(of).collect(), state.fair_fraction)
    }

    fn levels(&self) -> Vec<Arc<PriorityLevel>> {
        self.lock().levels.values().map(|level| level.level.clone()).collect()
    }

    fn digest(&self, state: &mut ControllerState) {
        let digestion = digestion::Digestion {
            server_limit: self.server_limit,
            observer: &*self.observer,
            signal: &self.signal,
            now: timer_now(),
        };
        let digested = digestion.digest(&state.objects, &mut state.levels);
        state.fair_fraction = digested.fair_fraction;
        self.configuration.store(Arc::new(digested.configuration));
        // From here on no new request is classified to them.
        for level in digested.leaving {
            if !level.level.retire() {
                // A request arrived before: keep the level until it drains.
                level.level.set_quiescing(true);
                state.levels.insert(level.configuration.name.clone(), level);
            }
        }
    }

    fn hash(&self, flow_schema: &FlowSchema, digest: &RequestDigest<'_>) -> u64 {
        match flow_schema.queues {
            0 | 1 => 0,
            _ => {
                let distinguisher = flow_schema.flow_distinguisher(digest);
                self.hasher.hash_one((&*flow_schema.name, distinguisher))
            }
        }
    }

    #[cfg(test)]
    fn check(&self) {
        self.levels().iter().for_each(|level| level.check());
    }

    fn lock(&self) -> MutexGuard<'_, ControllerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Controller of {} seats", self.server_limit)
    }
}

/// Queue wait limit of a request: a quarter of the time from its receipt to its deadline, or `default` (a quarter of
/// `--request-timeout`) without a deadline; at most a minute.
pub fn wait_until(received: Instant, deadline: Option<Instant>, default: Duration) -> Instant {
    let limit = match deadline {
        Some(deadline) => deadline.saturating_duration_since(received) / WAIT_PART,
        None => default,
    };
    received + limit.min(MAX_WAIT)
}
