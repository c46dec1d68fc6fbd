//! Metrics of the server's requests to itself (upstream: `RequestsMetrics` of client-go, `apiserver_selfrequest_total`).

use std::sync::Arc;

use http_body::Body as _;
use kevel_clock::Stopwatch;
use kevel_component::future::Pending;
use kevel_registry::user::APISERVER;

use crate::handler::{Filter, Handler, Response};
use crate::metrics::{Metrics, REST_CLIENT, RestCall};
use crate::request::{Request, RequestBody};
use crate::responses::ResponseObject;

/// Host of the server itself, whatever its port.
const HOST: &str = "apiserver-loopback-client";

/// Counts what in-process clients ask for, and how it ends.
pub(super) struct OwnRequests(pub Arc<Metrics>);

impl Filter for OwnRequests {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if request.user.as_ref().is_some_and(|user| user.name == APISERVER) {
            self.0.count_self_request(&request.info, &request.parts);
        }
        let method = request.parts.method.clone();
        let sent = match &request.body {
            RequestBody::Bytes(bytes) => Some(bytes.len()),
            RequestBody::Object(_) | RequestBody::Incoming(_) => None,
        };
        let started = Stopwatch::start();
        Box::pin(async move {
            let response = next.handle(request).await;
            let (code, took) = (Some(response.status().as_u16()), started.elapsed());
            let method = method.as_str();
            let received = match response.extensions().get::<ResponseObject>() {
                Some(_) => None,
                None => response.body().size_hint().exact(),
            };
            let received = received.and_then(|bytes| usize::try_from(bytes).ok());
            REST_CLIENT.record(RestCall { host: HOST, method, code, took, sent, received });
            response
        })
    }
}
