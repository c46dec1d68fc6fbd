//! Handler chain of in-process clients, the server's own controllers: audited, without authentication and
//! authorization.

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

/// Builds the chain before `handler`. Without an auditor it is `handler` itself.
pub fn internal(audit: Option<Arc<Auditor>>, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
    let Some(auditor) = audit else { return handler };
    let mut chain = Chain::default();
    chain.push(AuditInit::new(Some(auditor)));
    chain.push(WithLatencyTrackers);
    chain.push(WithAudit);
    chain.push(Allowed);
    chain.before(handler)
}

/// Annotates the audit event as allowed, as for `system:masters`.
#[derive(Debug)]
struct Allowed;

impl Filter for Allowed {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        annotate_allowed(&request, "");
        next.handle(request)
    }
}
