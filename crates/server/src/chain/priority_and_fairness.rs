//! `--enable-priority-and-fairness` (upstream: `WithPriorityAndFairness`).

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use kevel_clock::Stopwatch;
use kevel_flowcontrol::{Admitted, FlowSchema, Rejected, Started};

use super::held::{Hold, hold};
use super::long_running::is_long_running;
use super::too_many_requests::too_many_requests;
use super::{Installed, plain};
use crate::flowcontrol::{Executing, FlowControl, ResourceFacts};
use crate::handler::{Filter, Handler, Response};
use crate::latency_trackers::LatencyTrackers;
use crate::metrics::{Histogram, Metrics};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::latency::Phase;
use kevel_registry::user::User;
use kevel_registry::verb::Verb;

const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// Queues requests until they get seats, and refuses those that find their queues full. Long-running requests take no
/// seats, except watches during their initialization.
pub(super) struct PriorityAndFairness {
    pub flow_control: Arc<FlowControl>,
    pub resources: Arc<dyn ResourceFacts>,
    /// Longest wait of a request without a deadline.
    pub default_wait: Duration,
    pub metrics: Arc<Metrics>,
    pub installed: Installed,
    /// Histogram of the time spent in this filter.
    pub duration: Arc<Histogram>,
}

impl Hold for Executing {}

impl Filter for PriorityAndFairness {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let entered = Stopwatch::start();
        if request.info.verb != Verb::Watch && is_long_running(&request.info) {
            return next.handle(request);
        }
        let Some(user) = request.user.clone() else {
            let error = plain::internal_error(&request.parts.uri, "no User found in context");
            return Box::pin(std::future::ready(error));
        };
        match self.flow_control.start(&request, &user, &*self.resources, self.default_wait) {
            Started::Admitted(admitted) => {
                self.duration.observe(entered.elapsed().as_secs_f64());
                self.execute(request, &user, admitted, next)
            }
            Started::Rejected(rejected) => {
                Box::pin(std::future::ready(self.reject(&request, &rejected)))
            }
            Started::Waiting(waiting) => {
                let mark = self.flow_control.wait(&request.info);
                Box::pin(async move {
                    let decided = waiting.await;
                    drop(mark);
                    self.duration.observe(entered.elapsed().as_secs_f64());
                    match decided {
                        Ok(admitted) => self.execute(request, &user, admitted, next).await,
                        Err(rejected) => self.reject(&request, &rejected),
                    }
                })
            }
        }
    }
}

impl PriorityAndFairness {
    fn execute<'a>(
        &'a self,
        mut request: Request,
        user: &User,
        admitted: Admitted,
        next: &'a dyn Handler,
    ) -> Pending<'a, Response> {
        LatencyTrackers::add_to(&request, Phase::Queue, admitted.waited());
        let flow_schema = admitted.flow_schema().clone();
        if request.info.verb == Verb::Watch {
            let seats = self.flow_control.watch(&request, user, admitted, &*self.resources);
            request.parts.extensions.insert(seats);
            let pending = next.handle(request);
            return Box::pin(async move { classified(pending.await, &flow_schema) });
        }
        let executing = self.flow_control.execute(&request.info, admitted);
        let pending = next.handle(request);
        Box::pin(async move { hold(classified(pending.await, &flow_schema), executing) })
    }

    fn reject(&self, request: &Request, rejected: &Rejected) -> Response {
        let Rejected { flow_schema, reason, retry_after, waited } = rejected;
        LatencyTrackers::add_to(request, Phase::Queue, *waited);
        tracing::debug!(
            target: "v3",
            flowSchema = flow_schema.name(),
            priorityLevel = flow_schema.priority_level(),
            %reason,
            ?waited,
            "Rejected a request"
        );
        let response = too_many_requests(request, *retry_after, &self.metrics, &self.installed);
        classified(response, flow_schema)
    }
}

/// Adds the UIDs of the flow schema and priority level to the response. Their names are not disclosed to clients.
fn classified(mut response: Response, flow_schema: &FlowSchema) -> Response {
    let headers = response.headers_mut();
    for (name, uid) in [
        (FLOW_SCHEMA_UID, flow_schema.uid()),
        (PRIORITY_LEVEL_UID, flow_schema.priority_level_uid()),
    ] {
        if let Ok(uid) = HeaderValue::from_str(uid) {
            headers.insert(name, uid);
        }
    }
    response
}
