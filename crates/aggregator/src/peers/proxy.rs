//! Proxy of requests for resources that only a peer serves.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use kevel_api::status::StatusError;
use kevel_component::future::Pending;
use kevel_server::handler::{Filter, Handler, Response};
use kevel_server::request::Request;
use kevel_server::request_info::RequestInfo;
use kevel_server::responses::failure_to;

use super::Peers;
use super::metrics::ENDPOINT_RESOLUTION;
use crate::proxy::Passage;

/// Header of a proxied request: its receiver must not proxy it again.
pub(super) const PEER_PROXIED: HeaderName = HeaderName::from_static("x-kubernetes-peer-proxied");
pub(super) const PROXIED: HeaderValue = HeaderValue::from_static("true");

/// Filter that proxies requests to peers.
#[derive(Clone, Debug)]
pub struct PeerProxy(pub(super) Arc<Peers>);

impl Filter for PeerProxy {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let peers = &self.0;
        if !request.info.is_resource
            || request.parts.headers.get(PEER_PROXIED) == Some(&PROXIED)
            || !peers.synced.is_signaled()
            || peers.serves(&request.info)
        {
            return next.handle(request);
        }
        let able = peers.who_serves(&request.info);
        match able.is_empty() {
            true => next.handle(request),
            false => Box::pin(async move { peers.pass_on(able, request).await }),
        }
    }
}

impl Peers {
    /// Whether this server serves the resource, or knows an extension server for it.
    fn serves(&self, info: &RequestInfo) -> bool {
        let RequestInfo { group, version, resource, .. } = info;
        let in_table =
            |rows: &kevel_registry::resource::Rows| rows.get(group, version, resource).is_some();
        self.tables.iter().any(|table| in_table(&table.current()))
            || self.services.remote().contains_key(&format!("{version}.{group}"))
    }

    /// Peers that serve the resource.
    fn who_serves(&self, info: &RequestInfo) -> Vec<String> {
        let known = self.known.load();
        let wanted = ((info.group.clone(), info.version.clone()), info.resource.clone());
        let able = known.resources.iter().filter(|(_, resources)| resources.contains(&wanted));
        able.map(|(id, _)| id.clone()).collect()
    }

    async fn pass_on(&self, able: Vec<String>, request: Request) -> Response {
        let mut addresses = Vec::new();
        for id in &able {
            match self.endpoint(id).await {
                Ok(address) => addresses.push(address),
                Err(error) => tracing::error!(peer = id, error, "the peer cannot be found"),
            }
        }
        let Some(address) = any(&addresses) else {
            self.metrics.failed(ENDPOINT_RESOLUTION, &request.info);
            let why = "Error getting ip and port info of the remote server while proxying";
            return failure_to(&request, StatusError::service_unavailable(why));
        };
        tracing::info!(path = request.info.path, address, "Proxying request");
        let (server, info) = (self.server.current(), request.info.clone());
        let passage = Passage {
            server: &server,
            address,
            reject_forwarding_redirects: false,
            mark: Some((PEER_PROXIED, PROXIED)),
        };
        let response = passage.pass_on(request).await;
        self.metrics.rerouted(response.status(), Some(&info));
        response
    }
}

/// A random address.
fn any(addresses: &[String]) -> Option<&String> {
    let chance = RandomState::new().hash_one(0) as usize;
    addresses.get(chance.checked_rem(addresses.len())?)
}
