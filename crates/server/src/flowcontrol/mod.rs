//! Priority and fairness of requests: [`kevel_flowcontrol`] decides, by the request's attributes and facts of its
//! resource.

mod dump;
mod estimate;
mod execution;
mod log;
mod metrics;
mod read_vs_write;
mod watch;

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_flowcontrol::{
    Admitted, Controller, Digested, FlowSchema, ObjectStats, RequestDigest, Started, WatchTracker,
    WorkEstimate, WorkEstimator, wait_until,
};
use tokio::time::Instant;

pub use self::dump::{DUMPS, Dump, DumpHandler};
pub(crate) use self::execution::Executing;
use self::execution::ExecutionPhase;
pub(crate) use self::log::FlowLog;
use self::metrics::FlowMetrics;
use self::read_vs_write::ReadVsWrite;
pub(crate) use self::watch::{WatchHold, WatchSeats};
use crate::metrics::Metrics;
use crate::request::Request;
use crate::request_info::RequestInfo;
use kevel_registry::user::User;
use kevel_registry::verb::Verb;

/// Read-only verbs. All others count as mutating.
pub(crate) const READ_ONLY: [Verb; 3] = [Verb::Get, Verb::List, Verb::Watch];

/// Facts of resources for work estimates.
pub trait ResourceFacts: Send + Sync + 'static {
    /// Number and size of the resource's objects; `None` if another server serves it.
    fn stats(&self, info: &RequestInfo) -> Option<ObjectStats>;

    /// Whether a watch is indexed, so that few changes wake it.
    fn is_indexed(&self, info: &RequestInfo) -> bool;
}

/// No facts of any resource.
#[derive(Clone, Copy, Debug)]
pub struct NoFacts;

impl ResourceFacts for NoFacts {
    fn stats(&self, _: &RequestInfo) -> Option<ObjectStats> {
        None
    }

    fn is_indexed(&self, _: &RequestInfo) -> bool {
        false
    }
}

/// Priority and fairness of a server.
pub struct FlowControl {
    controller: Arc<Controller>,
    estimator: WorkEstimator,
    watches: WatchTracker,
    flows: Arc<FlowMetrics>,
    read_vs_write: ReadVsWrite,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for FlowControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FlowControl({:?})", self.controller)
    }
}

impl FlowControl {
    /// Flow control with so many seats, and the mandatory configuration.
    pub fn new(server_limit: u32, estimator: WorkEstimator, metrics: &Arc<Metrics>) -> Arc<Self> {
        let flows = Arc::new(FlowMetrics::new(metrics));
        let flow_control = Arc::new(FlowControl {
            controller: Controller::new(server_limit, flows.clone()),
            estimator,
            watches: WatchTracker::default(),
            flows,
            read_vs_write: ReadVsWrite::default(),
            metrics: metrics.clone(),
        });
        flow_control.set_capacity();
        let published = Arc::downgrade(&flow_control);
        metrics.before_show(move || {
            if let Some(flow_control) = published.upgrade() {
                flow_control.publish();
            }
        });
        flow_control
    }

    /// Replaces all PriorityLevelConfigurations and FlowSchemas; see [`Controller::configure`].
    pub fn configure(
        &self,
        priority_levels: &[impl Borrow<Value>],
        flow_schemas: &[impl Borrow<Value>],
    ) -> Digested {
        let digested = self.controller.configure(
            priority_levels,
            flow_schemas,
            Time::now(&self.metrics.clock),
        );
        self.set_capacity();
        digested
    }

    /// Adjusts borrowed seats; must run as long as requests are served.
    pub async fn run(&self) {
        self.controller.run().await;
    }

    /// Classifies and estimates a request, and gives it seats, a place in a queue, or a refusal.
    pub(crate) fn start(
        &self,
        request: &Request,
        user: &User,
        resources: &dyn ResourceFacts,
        default_wait: Duration,
    ) -> Started {
        let digest = digest(&request.info, user);
        let flow_schema = self.controller.classify(&digest);
        let estimate = self.estimate(&request.info, &digest, &flow_schema, resources);
        if let Some(log) = request.parts.extensions.get::<FlowLog>() {
            log.classified(&flow_schema, &estimate);
        }
        let received = Instant::from_std(request.received.started);
        let deadline = request.deadline.map(Instant::from_std);
        let until = wait_until(received, deadline, default_wait);
        self.controller.start(&digest, flow_schema, estimate, until)
    }

    /// Counts a waiting request, until the result is dropped.
    pub(crate) fn wait(self: &Arc<Self>, info: &RequestInfo) -> impl Send + use<> {
        self.enter(ExecutionPhase::Waiting, info)
    }

    /// Counts an executing request, as long as it has seats.
    pub(crate) fn execute(self: &Arc<Self>, info: &RequestInfo, admitted: Admitted) -> Executing {
        Executing::new(admitted, self.enter(ExecutionPhase::Executing, info))
    }

    /// Seats and registration of a watch: the seats until its initialization.
    pub(crate) fn watch(
        self: &Arc<Self>,
        request: &Request,
        user: &User,
        admitted: Admitted,
        resources: &dyn ResourceFacts,
    ) -> WatchHold {
        let counted = !resources.is_indexed(&request.info);
        let registration = counted.then(|| self.watches.register(&digest(&request.info, user)));
        let log = request.parts.extensions.get::<FlowLog>().cloned();
        let executing = self.execute(&request.info, admitted).logged(log);
        WatchHold::new(WatchSeats::new(executing, registration))
    }

    fn estimate(
        &self,
        info: &RequestInfo,
        digest: &RequestDigest<'_>,
        flow_schema: &FlowSchema,
        resources: &dyn ResourceFacts,
    ) -> WorkEstimate {
        let watches = || self.watches.interested(digest);
        estimate::estimate(&self.estimator, info, flow_schema, resources, watches)
    }

    /// Sets the capacity of the read-vs-write metrics.
    fn set_capacity(&self) {
        let gauges = self.controller.gauges();
        self.read_vs_write.set_capacity(gauges.max_waiting, gauges.max_executing);
    }

    /// Publishes the metrics.
    fn publish(&self) {
        self.flows.publish(&self.controller.gauges());
        self.flows.publish_read_vs_write(&self.read_vs_write);
    }
}

/// Attributes of a request for classification (upstream: `RequestDigest`).
fn digest<'a>(info: &'a RequestInfo, user: &'a User) -> RequestDigest<'a> {
    RequestDigest {
        user: &user.name,
        groups: &user.groups,
        is_resource: info.is_resource,
        verb: info.verb.as_str(),
        path: &info.path,
        group: &info.group,
        version: &info.version,
        namespace: &info.namespace,
        resource: &info.resource,
        subresource: &info.subresource,
        name: &info.name,
    }
}
