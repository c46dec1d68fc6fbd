//! Leader election among API servers by a Lease in `kube-system`.

use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::MicroTime;
use kevel_api::value::{Map, Value};
use kevel_clock::{Clock, Moment};
use kevel_component::signals::Signal;
use tokio::sync::watch;

use crate::client::Client;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// Factor of the random addition to the retry period, so that servers do not retry at the same time.
const JITTER: f64 = 1.2;

/// Timers of a leader election.
#[derive(Clone, Copy, Debug)]
pub struct LeaderElectionTimers {
    /// Time for which other servers respect the lease after the last renewal.
    pub lease_duration: Duration,
    /// Time since the last renewal after which the holder stops leading.
    pub renew_deadline: Duration,
    /// Interval between attempts.
    pub retry_period: Duration,
}

/// Participation of this server in the election for one lease.
#[derive(Clone, Debug)]
pub struct LeaderElector {
    client: Client,
    name: &'static str,
    identity: String,
    timers: LeaderElectionTimers,
    /// Signaled to end the participation.
    stopped: Signal,
    /// Whether this server leads.
    leading: watch::Sender<bool>,
}

/// The lease as first observed in its present state, with the local time: only this host's clock counts.
struct Observed {
    spec: Value,
    since: Moment,
    /// Time before this server's last write of the lease. Others count from after that write, so this server's
    /// deadline comes first.
    renewed: Moment,
}

/// Notes that this server leads, until it is dropped.
struct Leading<'a>(&'a watch::Sender<bool>);

impl<'a> Leading<'a> {
    fn new(leading: &'a watch::Sender<bool>) -> Self {
        leading.send_replace(true);
        Leading(leading)
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl LeaderElector {
    /// Makes an elector; `server`, a hostname or an ID, is part of its identity.
    pub fn new(
        client: Client,
        name: &'static str,
        server: &str,
        timers: LeaderElectionTimers,
    ) -> Self {
        let identity = format!("{server}_{}", uuid::Uuid::new_v4());
        let (stopped, leading) = (Signal::new("LeaseReleased"), watch::Sender::new(false));
        LeaderElector { client, name, identity, timers, stopped, leading }
    }

    /// Runs `lead` whenever this server holds the lease, until [`release`](Self::release). `lead` ends itself at the
    /// signal that it gets: when the lease was not renewed in time, or is to be released. It has the rest of the
    /// lease's duration for that.
    pub async fn run<F: Future<Output = ()>>(self, lead: impl Fn(Signal) -> F) {
        loop {
            let mut observed = tokio::select! {
                biased;
                () = self.stopped.wait() => return,
                observed = self.acquire() => observed,
            };
            let leading = Leading::new(&self.leading);
            tracing::info!(lease = self.name, "Successfully acquired lease");
            let over = Signal::new("LeaseOver");
            let keep = async {
                tokio::select! {
                    () = self.renew(&mut observed) => {
                        tracing::warn!(lease = self.name, "Failed to renew lease");
                    }
                    () = self.stopped.wait() => {}
                    () = over.wait() => {}
                }
                // False if `lead` has ended first.
                let kept = !over.is_signaled();
                over.signal();
                kept
            };
            let lead = async {
                lead(over.clone()).await;
                over.signal();
            };
            let (kept, ()) = tokio::join!(keep, lead);
            drop(leading);
            if self.stopped.is_signaled() {
                return;
            }
            if !kept {
                if let Err(error) = self.give_up().await {
                    tracing::error!(lease = self.name, %error, "Failed to release lease");
                }
                self.client.clock().sleep(self.timers.retry_period).await;
            }
        }
    }

    /// Ends the participation, waits until this server does not lead, and releases the lease so that another server
    /// can acquire it at once.
    pub async fn release(&self) -> Result<(), StatusError> {
        self.stopped.signal();
        // Fails only if there is no sender, and this is one.
        let _ = self.leading.subscribe().wait_for(|leading| !*leading).await;
        self.give_up().await
    }

    async fn acquire(&self) -> Observed {
        let now = self.client.clock().moment();
        let mut observed = Observed { spec: Value::Null, since: now, renewed: now };
        while !self.try_acquire_or_renew(&mut observed).await {
            let random = (RandomState::new().hash_one(()) >> 11) as f64 / (1u64 << 53) as f64;
            self.client
                .clock()
                .sleep(self.timers.retry_period.mul_f64(1.0 + JITTER * random))
                .await;
        }
        observed
    }

    /// Renews the lease; returns when it could not be renewed in time, or another server has it.
    async fn renew(&self, observed: &mut Observed) {
        let clock = self.client.clock();
        loop {
            let deadline = observed.renewed + self.timers.renew_deadline;
            let attempt = async {
                clock.sleep(self.timers.retry_period).await;
                self.try_acquire_or_renew(observed).await
            };
            let renewed = tokio::select! {
                biased;
                () = clock.sleep_until(deadline) => return,
                renewed = attempt => renewed,
            };
            if !renewed && observed.spec.str_at(&["holderIdentity"]) != self.identity {
                return;
            }
        }
    }

    async fn try_acquire_or_renew(&self, observed: &mut Observed) -> bool {
        let tried = self.write(observed).await;
        tried.unwrap_or_else(|error| {
            tracing::error!(lease = self.name, %error, "Failed to update lease");
            false
        })
    }

    /// Acquires or renews the lease; true if this server holds it.
    async fn write(&self, observed: &mut Observed) -> Result<bool, StatusError> {
        let renewed = self.client.clock().moment();
        let now = MicroTime::now(self.client.clock());
        let path = self.path();
        let written = match self.client.get(&path).await {
            Ok(mut lease) => {
                let spec = lease.at(&["spec"]).cloned().unwrap_or_default();
                if observed.spec != spec {
                    (observed.spec, observed.since) = (spec, self.client.clock().moment());
                }
                let ours = holder(&lease) == self.identity;
                if !ours && !holder(&lease).is_empty() && observed.is_valid(self.client.clock()) {
                    return Ok(false);
                }
                lease.make_map(&[]).insert("spec", self.spec(&observed.spec, ours, now));
                self.client.update(&path, &lease).await?
            }
            Err(error) if error.reason() == reason::NOT_FOUND => {
                let metadata = Map::from_iter([("name", Value::from(self.name))]);
                let lease = Map::from_iter([
                    ("metadata", Value::Map(metadata)),
                    ("spec", self.spec(&Value::Null, true, now)),
                ]);
                self.client.create(LEASES, &lease.into()).await?
            }
            Err(error) => return Err(error),
        };
        let spec = written.at(&["spec"]).cloned().unwrap_or_default();
        *observed = Observed { spec, since: self.client.clock().moment(), renewed };
        Ok(true)
    }

    /// Lease spec with this server as the holder; `ours` is true for a renewal.
    fn spec(&self, old: &Value, ours: bool, now: MicroTime) -> Value {
        let now = Value::from(now.to_string().as_str());
        let transitions = old.at(&["leaseTransitions"]).and_then(Value::as_int).unwrap_or(0);
        let transitions = if ours { transitions } else { transitions.saturating_add(1) };
        let acquired = old.at(&["acquireTime"]).filter(|_| ours).cloned();
        let seconds = i64::try_from(self.timers.lease_duration.as_secs()).unwrap_or(i64::MAX);
        Value::Map(Map::from_iter([
            ("acquireTime", acquired.unwrap_or_else(|| now.clone())),
            ("holderIdentity", Value::from(self.identity.as_str())),
            ("leaseDurationSeconds", Value::Int(seconds)),
            ("leaseTransitions", Value::Int(transitions)),
            ("renewTime", now),
        ]))
    }

    /// Clears the holder of the lease if this server holds it.
    async fn give_up(&self) -> Result<(), StatusError> {
        let write = async {
            loop {
                match self.give_up_as_seen().await {
                    // A renewal was still in progress: try again.
                    Err(error) if error.reason() == reason::CONFLICT => {}
                    result => return result,
                }
            }
        };
        match tokio::time::timeout(self.timers.renew_deadline, write).await {
            Ok(Err(error)) if error.reason() == reason::NOT_FOUND => Ok(()),
            Ok(written) => written,
            Err(_) => Err(StatusError::internal("releasing the lease timed out")),
        }
    }

    async fn give_up_as_seen(&self) -> Result<(), StatusError> {
        let mut lease = self.client.get(&self.path()).await?;
        if holder(&lease) != self.identity {
            return Ok(());
        }
        let now = Value::from(MicroTime::now(self.client.clock()).to_string().as_str());
        let spec = lease.make_map(&["spec"]);
        spec.insert("holderIdentity", Value::from(""));
        spec.insert("leaseDurationSeconds", Value::Int(1));
        spec.insert("acquireTime", now.clone());
        spec.insert("renewTime", now);
        self.client.update(&self.path(), &lease).await.map(drop)
    }

    fn path(&self) -> String {
        format!("{LEASES}/{}", self.name)
    }
}

fn holder(lease: &Value) -> &str {
    lease.str_at(&["spec", "holderIdentity"])
}

impl Observed {
    /// True if the holder's lease has not expired, by this server's observation.
    fn is_valid(&self, clock: &Clock) -> bool {
        let seconds = self.spec.at(&["leaseDurationSeconds"]).and_then(Value::as_int).unwrap_or(0);
        clock.since(self.since) < Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }
}
