//! Every request has an audit ID, and its client knows it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::{HeaderName, HeaderValue};

use crate::audit::{AuditContext, Auditor};
use crate::future::Pending;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;

/// The header of an audit ID.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Gives a request the client's audit ID, or a new one, and says it in the answer.
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

    /// An ID that nobody else has. It is no secret: a counter, hashed with what the process drew at
    /// random once, is as good as a draw for each request, and cheaper.
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

/// How much of an audit ID the log shows.
const MAX_LOGGED: usize = 64;

/// An audit ID for the log. Clients may send long ones.
pub(super) fn logged(id: &str) -> &str {
    let end = (0..=MAX_LOGGED.min(id.len())).rev().find(|&end| id.is_char_boundary(end));
    id.get(..end.unwrap_or(0)).unwrap_or_default()
}
