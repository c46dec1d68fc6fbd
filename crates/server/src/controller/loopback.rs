//! The way of a server's own parts to its API.

use std::sync::{Arc, OnceLock, Weak};

use kevel_api::status::StatusError;

use crate::future::Pending;
use crate::handler::{Handler, Response};
use crate::request::Request;
use crate::responses::failure_to;

/// A server that is not built yet, for clients that it is built of: plug-ins and authenticators write
/// through the server they are part of. This is the one place where something is told later what it is
/// for. It does not keep the server: that would keep itself for ever.
#[derive(Default)]
pub struct Loopback(OnceLock<Weak<dyn Handler>>);

impl std::fmt::Debug for Loopback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Loopback")
    }
}

impl Loopback {
    /// Says which server it leads to. Only the first call counts.
    pub fn lead_to(&self, server: &Arc<dyn Handler>) {
        let _ = self.0.set(Arc::downgrade(server));
    }
}

impl Handler for Loopback {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        let server = self.0.get().and_then(Weak::upgrade);
        Box::pin(async move {
            match server {
                Some(server) => server.handle(request).await,
                None => {
                    let error = StatusError::service_unavailable("the server does not run");
                    failure_to(&request, error)
                }
            }
        })
    }
}
