//! `/debug/api_priority_and_fairness/dump_*`: state of priority levels and queues.

use std::sync::Arc;

use http::{HeaderValue, header};
use kevel_flowcontrol::dump;

use super::FlowControl;
use crate::body::Body;
use crate::handler::{Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::query;

/// Kind of dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// A line for each priority level.
    PriorityLevels,
    /// A line for each queue.
    Queues,
    /// A line for each request.
    Requests,
}

/// The dumps by their paths.
pub const DUMPS: [(&str, Dump); 3] = [
    ("/debug/api_priority_and_fairness/dump_priority_levels", Dump::PriorityLevels),
    ("/debug/api_priority_and_fairness/dump_queues", Dump::Queues),
    ("/debug/api_priority_and_fairness/dump_requests", Dump::Requests),
];

/// Handler of a dump.
#[derive(Debug)]
pub struct DumpHandler {
    /// Flow control to dump.
    pub flow_control: Arc<FlowControl>,
    /// Kind of dump.
    pub dump: Dump,
}

impl Handler for DumpHandler {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        let details = query::first(&request.info.query, "includeRequestDetails")
            .is_some_and(|asked| !asked.is_empty());
        let levels = self.flow_control.controller.dump(details, request.clock().now());
        let text = match self.dump {
            Dump::PriorityLevels => dump::priority_levels(&levels),
            Dump::Queues => dump::queues(&levels),
            Dump::Requests => dump::requests(&levels, details),
        };
        let mut response = http::Response::new(Body::from(text));
        let media = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        Box::pin(std::future::ready(response))
    }
}
