//! The face of priority and fairness.

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

/// How often seats are lent and taken back.
pub const BORROWING_ADJUSTMENT_PERIOD: Duration = Duration::from_secs(10);
/// The longest that a request may wait for its seats.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// A request may wait for that part of its time.
const WAIT_PART: u32 = 4;

/// Decides which requests are served now, which wait, and which are refused.
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
    /// What the configuration is made of; whoever changes it holds this.
    state: Mutex<ControllerState>,
}

struct ControllerState {
    /// What was last given to `configure`.
    objects: Objects,
    levels: Levels,
    fair_fraction: f64,
}

impl Controller {
    /// A controller of so many seats, `--max-requests-inflight` and
    /// `--max-mutating-requests-inflight` together, with the mandatory configuration.
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

    /// Gives a classified request its seats, a place in a queue until then, or a refusal.
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
                // Its level has gone since it was classified: there is another configuration.
                None => {
                    flow_schema = self.classify(digest);
                    continue;
                }
            };
        }
    }

    /// Classifies a request, estimates it and waits for its seats, or a refusal.
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

    /// Takes all PriorityLevelConfigurations and FlowSchemas (v1, with defaults) in the place of
    /// those that it had. The answer is what is to be written and said about them.
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

    /// Lends and takes back seats from time to time, forgets levels that have drained, and wakes
    /// who waits for seats that linger. To be run as long as the server does.
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
            // Either is a reason to look again.
            let _ = timeout_at(until, self.signal.notify.notified()).await;
        }
    }

    /// Lends and takes back seats now.
    pub fn adjust(&self) {
        let mut state = self.lock();
        let now = timer_now();
        state.fair_fraction = levels::adjust(&mut state.levels, self.server_limit, now);
    }

    /// Reads something of each level, in the order of their names.
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
        // From here on nobody new comes to those.
        for level in digested.leaving {
            if !level.level.retire() {
                // Somebody did before.
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

/// Until when a request may wait for its seats: a quarter of the time that it has since it was
/// received, or `default` (a quarter of `--request-timeout`) if it has no deadline; a minute at
/// most.
pub fn wait_until(received: Instant, deadline: Option<Instant>, default: Duration) -> Instant {
    let limit = match deadline {
        Some(deadline) => deadline.saturating_duration_since(received) / WAIT_PART,
        None => default,
    };
    received + limit.min(MAX_WAIT)
}
