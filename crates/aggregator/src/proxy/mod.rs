//! Proxy of requests for remote APIServices (upstream: proxyHandler).

mod headers;
mod passage;

use std::sync::Arc;

use http::StatusCode;
use kevel_server::delegate::not_found;
use kevel_server::future::Pending;
use kevel_server::handler::{Filter, Handler, Response};
use kevel_server::request::Request;

pub(crate) use passage::{Passage, error};

use crate::api_service::{GROUP, LEGACY, ServiceReference};
use crate::registered::{ApiServices, Registered};
use crate::service_resolver::ServiceResolver;

/// Filter that proxies requests to extension servers.
#[derive(Clone, Debug)]
pub struct Proxy {
    pub(crate) services: Arc<ApiServices>,
    pub(crate) resolver: Arc<ServiceResolver>,
    /// `--aggregator-reject-forwarding-redirect`
    pub(crate) reject_forwarding_redirects: bool,
}

impl Filter for Proxy {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let remote = self.services.remote();
        // The usual case: without remote APIServices requests have no overhead.
        if remote.is_empty() {
            return next.handle(request);
        }
        let one = service_of(&request.info.path).and_then(|name| remote.get(&name).cloned());
        match one {
            None => next.handle(request),
            Some(one) => Box::pin(async move { self.pass_on(&one, request).await }),
        }
    }
}

impl Proxy {
    /// Proxies a request, and returns the response.
    pub(crate) async fn pass_on(&self, one: &Registered, request: Request) -> Response {
        let Registered { service, upstream: Some(upstream) } = one else {
            return not_found(&request);
        };
        if !service.available {
            return error(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
        }
        if let Err(wrong) = upstream.server.check() {
            return error(StatusCode::INTERNAL_SERVER_ERROR, &wrong);
        }
        let ServiceReference { namespace, name, port } = &upstream.service;
        let address = match self.resolver.resolve(namespace, name, *port) {
            Ok(address) => address,
            Err(why) => {
                tracing::error!("error resolving {namespace}/{name}: {why}");
                return error(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
            }
        };
        let passage = Passage {
            server: &upstream.server,
            address: &address,
            reject_forwarding_redirects: self.reject_forwarding_redirects,
            mark: None,
        };
        passage.pass_on(request).await
    }
}

/// Name of the APIService of a path, if it may be remote.
fn service_of(path: &str) -> Option<String> {
    if path == "/api" || path.starts_with("/api/") {
        return Some(LEGACY.to_owned());
    }
    let (group, rest) = path.strip_prefix("/apis/")?.split_once('/')?;
    let version = rest.split_once('/').map_or(rest, |(version, _)| version);
    (group != GROUP && !version.is_empty()).then(|| format!("{version}.{group}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_its_api_service() {
        for (path, expected) in [
            ("/api", Some("v1.")),
            ("/api/v1/pods", Some("v1.")),
            ("/apis", None),
            ("/apis/", None),
            ("/apis/a.io", None),
            ("/apis/a.io/", None),
            ("/apis/a.io/v1", Some("v1.a.io")),
            ("/apis/a.io/v1/", Some("v1.a.io")),
            ("/apis/a.io/v1/things/x", Some("v1.a.io")),
            ("/apis/apiregistration.k8s.io/v1/apiservices", None),
            ("/openapi/v3", None),
        ] {
            assert_eq!(service_of(path).as_deref(), expected, "{path}");
        }
    }
}
