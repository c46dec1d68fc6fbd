//! Election among the servers on one store: the holder of a Lease of their own runs the controllers.

use std::time::Duration;

use kevel_controller_runtime::{Client, LeaderElectionTimers, LeaderElector};

/// Name of the Lease in `kube-system`. Not kube-controller-manager's: that one stops the controllers.
const LEASE: &str = "kevel-controllers";

/// Time for which other servers respect the lease after the last renewal, as kube-controller-manager's default.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// Time since the last renewal after which the holder stops its controllers, as kube-controller-manager's default.
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Interval between attempts, as kube-controller-manager's default.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Elector of the server `id`. It writes the lease by `client`, as the server itself, like the servers' identity
/// leases: the bootstrap role of `system:kube-controller-manager` allows updates of that user's own lease only, and
/// roles that a cluster has stored need not change for this one.
pub(crate) fn elector(client: &Client, id: &str) -> LeaderElector {
    let timers = LeaderElectionTimers {
        lease_duration: LEASE_DURATION,
        renew_deadline: RENEW_DEADLINE,
        retry_period: RETRY_PERIOD,
    };
    LeaderElector::new(client.clone(), LEASE, id, timers)
}
