//! Handler chain of in-process clients, the server's own controllers: audited and authorized, without authentication.

use std::sync::Arc;

use super::audit::WithAudit;
use super::audit_init::AuditInit;
use super::authorization::{Authorization, annotate_allowed};
use super::latency_trackers::WithLatencyTrackers;
use super::own_requests::OwnRequests;
use super::{Chain, Filter};
use crate::audit::Auditor;
use crate::authorization::Authorizer;
use crate::handler::{Handler, Response};
use crate::metrics::Metrics;
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::user::PRIVILEGED;

/// Builds the chain before `handler`.
pub fn internal(
    audit: Option<Arc<Auditor>>,
    authorizer: Arc<dyn Authorizer>,
    metrics: &Arc<Metrics>,
    handler: Arc<dyn Handler>,
) -> Arc<dyn Handler> {
    let mut chain = Chain::default();
    // First: what is refused counts, too.
    chain.push(OwnRequests(metrics.clone()));
    if let Some(auditor) = audit {
        chain.push(AuditInit::new(Some(auditor)));
        chain.push(WithLatencyTrackers);
        chain.push(WithAudit);
    }
    chain.push(InternalAuthorization(Authorization::new(authorizer, metrics)));
    chain.before(handler)
}

/// Authorizes users of controllers. The server itself, a member of `system:masters`, may do everything, and the
/// authorizer is not asked: it may be a webhook that needs this server.
struct InternalAuthorization(Authorization);

impl Filter for InternalAuthorization {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let groups = request.user.as_ref().map_or(&[][..], |user| &user.groups);
        if groups.iter().any(|group| group == PRIVILEGED) {
            annotate_allowed(&request, "");
            return next.handle(request);
        }
        self.0.filter(request, next)
    }
}
