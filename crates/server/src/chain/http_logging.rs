//! HTTP request log, from `-v=3` on (upstream: `httplog.WithLogging`).

use std::net::SocketAddr;

use http::header::USER_AGENT;

use super::audit_init::logged;
use super::held::{Hold, hold};
use crate::flowcontrol::FlowLog;
use crate::handler::{Filter, Handler, Response};
use crate::metrics::labels;
use crate::request::Request;
use kevel_component::future::Pending;

/// Logs requests after their responses.
#[derive(Debug)]
pub(super) struct HttpLogging;

impl Filter for HttpLogging {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if !tracing::enabled!(target: "v3", tracing::Level::DEBUG) {
            return next.handle(request);
        }
        let flow = FlowLog::default();
        request.parts.extensions.insert(flow.clone());
        let mut line = Line {
            verb: labels::verb(&request.info, &request.parts),
            uri: request.parts.uri.clone(),
            started: request.received.started,
            user_agent: request.header(USER_AGENT).to_owned(),
            audit_id: logged(&request.audit_id).to_owned(),
            source: request.connection.peer,
            flow,
            code: 0,
        };
        let pending = next.handle(request);
        Box::pin(async move {
            let response = pending.await;
            line.code = response.status().as_u16();
            hold(response, line)
        })
    }
}

struct Line {
    verb: &'static str,
    uri: http::Uri,
    started: std::time::Instant,
    user_agent: String,
    audit_id: String,
    source: Option<SocketAddr>,
    flow: FlowLog,
    code: u16,
}

impl Hold for Line {}

const SWITCHING_PROTOCOLS: u16 = 101;

/// Logs when the response has been sent, or the client has disconnected.
impl Drop for Line {
    fn drop(&mut self) {
        let Line { verb, uri, started, user_agent, audit_id, source, flow, code } = self;
        // An upgraded (hijacked) connection has no response code.
        let hijacked = (*code == SWITCHING_PROTOCOLS).then_some(true);
        let resp = hijacked.is_none().then_some(*code);
        let init_latency = flow.initialization();
        let flow = flow.flow();
        let estimate = flow.map(|flow| &flow.estimate);
        tracing::debug!(
            target: "v3",
            verb,
            URI = %uri,
            latency = ?started.elapsed(),
            userAgent = user_agent,
            "audit-ID" = audit_id,
            srcIP = source.map(|source| source.to_string()),
            apf_pl = flow.map(|flow| flow.priority_level.as_str()),
            apf_fs = flow.map(|flow| flow.flow_schema.as_str()),
            apf_iseats = estimate.map(|estimate| estimate.initial_seats),
            apf_fseats = estimate.map(|estimate| estimate.final_seats),
            apf_additionalLatency = estimate.map(|e| tracing::field::debug(e.additional_latency)),
            apf_init_latency = init_latency.map(tracing::field::debug),
            hijacked,
            resp,
            "HTTP"
        );
    }
}
