//! Lease of kube-controller-manager: while one holds it, this server's controllers do not run.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::StatusError;
use kevel_api::time::MicroTime;
use kevel_api::value::Value;
use kevel_clock::Clock;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use tokio::sync::{Notify, watch};

/// Namespace and name of the lease.
pub(crate) const LEASE: (&str, &str) = ("kube-system", "kube-controller-manager");

/// Longest that a write of the lease waits for the controllers to stop: a leader gives up its renewal after ten
/// seconds.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Duration of a lease that does not say it, as kube-controller-manager's default.
const DEFAULT_SECONDS: i64 = 15;

/// Remaining time of a lease; `None` if it has no holder or has expired.
pub(crate) fn remaining(lease: &Value, clock: &Clock) -> Option<Duration> {
    if lease.str_at(&["spec", "holderIdentity"]).is_empty() {
        return None;
    }
    let renewed: MicroTime = lease.str_at(&["spec", "renewTime"]).parse().ok()?;
    let seconds = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_int);
    let until = renewed.plus_seconds(seconds.unwrap_or(DEFAULT_SECONDS));
    let micros =
        |time: MicroTime| i128::from(time.seconds) * 1_000_000 + i128::from(time.nanos / 1000);
    let left = micros(until) - micros(MicroTime::now(clock));
    u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_micros)
}

/// Agreement between the writes of the lease and the controllers.
#[derive(Debug)]
pub(crate) struct Handover {
    stop: Notify,
    running: watch::Sender<bool>,
}

impl Default for Handover {
    fn default() -> Self {
        Handover { stop: Notify::new(), running: watch::Sender::new(false) }
    }
}

impl Handover {
    /// Notes whether controllers run.
    pub fn set_running(&self, running: bool) {
        self.running.send_replace(running);
    }

    /// Waits for a request to stop.
    pub async fn stop_requested(&self) {
        self.stop.notified().await;
    }

    /// Stops the controllers and waits for that.
    async fn stop(&self) {
        let mut running = self.running.subscribe();
        if !*running.borrow_and_update() {
            return;
        }
        self.stop.notify_one();
        let stopped = running.wait_for(|running| !*running);
        if tokio::time::timeout(STOP_LIMIT, stopped).await.is_err() {
            tracing::warn!("Controllers still run while a controller manager takes the lease");
        }
    }
}

/// Admission of the lease: a controller manager that takes it finds the controllers of this server stopped.
#[derive(Debug)]
pub(crate) struct LeaseAdmission {
    pub handover: Arc<Handover>,
    pub clock: Clock,
}

impl Plugin for LeaseAdmission {
    fn name(&self) -> &'static str {
        "KubeControllerManagerLease"
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let name = object.map_or("", |object| object.str_at(&["metadata", "name"]));
        let concerns = attributes.is("coordination.k8s.io", "leases")
            && (attributes.namespace, name) == LEASE
            && writes
            && !attributes.dry_run;
        let taken = |lease: &&Value| concerns && remaining(lease, &self.clock).is_some();
        match object.filter(taken) {
            Some(_) => Box::pin(async {
                self.handover.stop().await;
                Ok(())
            }),
            None => ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use kevel_api::value::Map;
    use kevel_clock::ManualClock;

    use super::*;

    fn lease(holder: &str, renewed: &str, seconds: i64) -> Value {
        let spec = Map::from_iter([
            ("holderIdentity", Value::from(holder)),
            ("renewTime", Value::from(renewed)),
            ("leaseDurationSeconds", Value::from(seconds)),
        ]);
        Map::from_iter([("spec", Value::Map(spec))]).into()
    }

    #[test]
    fn lease_counts_until_its_duration_is_over() {
        let manual = ManualClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(100));
        let clock = manual.clock();
        for (holder, renewed, seconds, expected) in [
            ("a", "1970-01-01T00:01:35.000000Z", 15, Some(10)),
            ("", "1970-01-01T00:01:35.000000Z", 15, None),
            ("a", "1970-01-01T00:01:25.000000Z", 15, None),
            ("a", "", 15, None),
        ] {
            let left = remaining(&lease(holder, renewed, seconds), &clock);
            assert_eq!(left.map(|left| left.as_secs()), expected, "{holder} {renewed}");
        }
    }
}
