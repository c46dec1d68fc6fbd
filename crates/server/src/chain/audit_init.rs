//! Audit ID of every request, also sent in the response (upstream: `WithAuditInit`).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::{HeaderName, HeaderValue};

use crate::audit::{AuditContext, Auditor};
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;

/// Header of the audit ID.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Sets the request's audit ID, the client's or a new one, and adds it to the response.
#[derive(Debug, Default)]
pub(super) struct AuditInit {
    auditor: Option<Arc<Auditor>>,
    count: AtomicU64,
    hasher: RandomState,
}

impl AuditInit {
    pub(super) fn new(auditor: Option<Arc<Auditor>>) -> Self {
        AuditInit { auditor, ..AuditInit::default() }
    }

    /// A unique ID. It need not be secret: a counter hashed with a random key of the process is cheaper than random
    /// bytes for each request.
    fn new_id(&self) -> String {
        let count = self.count.fetch_add(1, Relaxed);
        let halves = [0u8, 1].map(|half| self.hasher.hash_one((count, half)));
        let bits = u128::from(halves[0]) << 64 | u128::from(halves[1]);
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string()
    }
}

impl Filter for AuditInit {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let given = request.parts.headers.get(AUDIT_ID).filter(|given| !given.is_empty()).cloned();
        let id = match &given {
            Some(given) => String::from_utf8_lossy(given.as_bytes()).into_owned(),
            None => self.new_id(),
        };
        let echoed = given.or_else(|| HeaderValue::from_str(&id).ok());
        if let Some(auditor) = &self.auditor {
            request.audit = AuditContext::new(auditor.clone(), &id);
        }
        request.audit_id = id;
        let pending = next.handle(request);
        Box::pin(async move {
            let mut response = pending.await;
            if let Some(echoed) = echoed {
                response.headers_mut().entry(AUDIT_ID).or_insert(echoed);
            }
            response
        })
    }
}

/// Longest audit ID in the log, in bytes.
const MAX_LOGGED: usize = 64;

/// An audit ID cut for the log, since clients may send long ones.
pub(crate) fn logged(id: &str) -> &str {
    let end = (0..=MAX_LOGGED.min(id.len())).rev().find(|&end| id.is_char_boundary(end));
    id.get(..end.unwrap_or(0)).unwrap_or_default()
}
