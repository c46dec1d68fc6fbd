//! Context of a read or write: facts of the request that causes it, without HTTP (upstream: `context.Context` with a
//! `request.RequestInfo`).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use kevel_api::status::StatusError;
use kevel_clock::{Clock, Stopwatch};
use kevel_component::future::Pending;
use kevel_compute::ComputeMeter;
use kevel_trace::TraceSpan;

use crate::audit::AuditEvent;
use crate::latency::{Phase, TrackLatency};
use crate::user::User;
use crate::verb::Verb;
use crate::warnings::Warnings;

/// Upper bound of a write's duration, whatever timeout the request allows (upstream: `requestTimeoutUpperBound`): a
/// slow admission webhook must not keep a write open for ever.
const WRITE_TIMEOUT: Duration = Duration::from_secs(34);

/// Context of a read or write.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    /// The authenticated user.
    pub user: &'a Arc<User>,
    /// Verb of the request, which may be another than the operation on an object: an apply that creates.
    pub verb: Verb,
    /// Namespace that was authorized; empty for all, and for cluster-scoped resources.
    pub namespace: &'a str,
    /// Name that was authorized; empty for collections.
    pub name: &'a str,
    /// Subresource that was authorized; empty for the object itself.
    pub subresource: &'a str,
    /// Query of the request, for plug-ins that see its options.
    pub query: &'a [(String, String)],
    /// Warnings for the client.
    pub warnings: &'a Warnings,
    /// Audit event of the request.
    pub audit: &'a dyn AuditEvent,
    /// Audit ID in logs and traces.
    pub audit_id: &'a str,
    /// Latency of the request's phases.
    pub trackers: Option<&'a dyn TrackLatency>,
    /// Compute account of the request.
    pub meter: &'a ComputeMeter,
    /// Span of the verb.
    pub span: &'a TraceSpan,
    /// Clock of the server.
    pub clock: &'a Clock,
    /// Monotonic time at which the request arrived.
    pub started: Instant,
    /// Deadline of the response.
    pub deadline: Option<Instant>,
    /// Permission for an update or apply that creates the object.
    pub create_permission: &'a dyn CreatePermission,
    /// Whether the object came with labels, before defaults were filled in.
    pub has_own_labels: &'a AtomicBool,
    /// Whether the caller takes written objects as trees, and not as wire bytes.
    pub takes_trees: bool,
}

impl std::fmt::Debug for RequestContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RequestContext { user, verb, namespace, name, .. } = self;
        write!(f, "RequestContext({} {verb} {namespace}/{name})", user.name)
    }
}

impl RequestContext<'_> {
    /// Deadline of a write. Only a deletecollection may use the request's whole time.
    pub(crate) fn write_deadline(&self) -> Option<Instant> {
        let bound = match self.verb {
            Verb::DeleteCollection => None,
            _ => self.started.checked_add(WRITE_TIMEOUT),
        };
        [self.deadline, bound].into_iter().flatten().min()
    }

    /// Runs work and adds its time to a phase of the request.
    pub(crate) async fn track<T>(&self, phase: Phase, work: impl Future<Output = T>) -> T {
        let started = Stopwatch::start();
        let done = work.await;
        if let Some(trackers) = self.trackers {
            trackers.add(phase, started.elapsed());
        }
        done
    }
}

/// Permission of an update or apply to create the object (upstream: `withAuthorization`).
pub trait CreatePermission: Send + Sync {
    /// Fails if the user may not create the object.
    fn ensure(&self) -> Pending<'_, Result<(), StatusError>>;
}

/// Options of a write (upstream: `CreateOptions`, `UpdateOptions`, `PatchOptions`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether nothing is stored.
    pub dry_run: bool,
    /// Name that the written fields are owned by.
    pub field_manager: String,
    /// Whether managedFields are computed from the change; an apply computes its own.
    pub tracked: bool,
}
