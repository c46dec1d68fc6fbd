//! The chain of requests from the server's own controllers: they need no authentication or authorization,
//! but are audited as all others are.

use std::sync::Arc;

use super::audit::WithAudit;
use super::audit_init::AuditInit;
use super::authorization::annotate_allowed;
use super::latency_trackers::WithLatencyTrackers;
use super::{Chain, Filter};
use crate::audit::Auditor;
use crate::future::Pending;
use crate::handler::{Handler, Response};
use crate::request::Request;

/// The way of controllers to `handler`. Without an auditor it is the shortest.
pub fn internal(audit: Option<Arc<Auditor>>, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
    let Some(auditor) = audit else { return handler };
    let mut chain = Chain::default();
    chain.push(AuditInit::new(Some(auditor)));
    chain.push(WithLatencyTrackers);
    chain.push(WithAudit);
    chain.push(Allowed);
    chain.before(handler)
}

/// Notes for the auditors that a request is allowed, as it is for `system:masters`.
#[derive(Debug)]
struct Allowed;

impl Filter for Allowed {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        annotate_allowed(&request, "");
        next.handle(request)
    }
}
