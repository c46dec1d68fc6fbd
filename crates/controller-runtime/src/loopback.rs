//! Loopback to the server's own API (upstream: `LoopbackClient`).

use std::sync::{Arc, OnceLock, Weak};

use kevel_api::status::StatusError;

use kevel_component::future::Pending;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::Request;
use kevel_server::responses::failure_to;

/// A server that is not built yet, for clients inside of it: admission plug-ins and authenticators write through the
/// server that they are part of. The only place with such late initialization. It holds a weak reference, since a
/// strong one would be a cycle.
#[derive(Default)]
pub struct Loopback(OnceLock<Weak<dyn Handler>>);

impl std::fmt::Debug for Loopback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Loopback")
    }
}

impl Loopback {
    /// Sets the server. Only the first call counts.
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
