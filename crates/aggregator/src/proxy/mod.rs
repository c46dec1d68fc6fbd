//! Proxy of requests for remote APIServices (upstream: proxyHandler).

mod headers;
mod passage;

use std::sync::Arc;

use http::StatusCode;
use kevel_component::future::Pending;
use kevel_server::delegate::not_found;
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
    use bytes::Bytes;
    use kevel_codec::json::{Unknown, decode_any};
    use kevel_registry::user::User;
    use kevel_server::egress::Dialer;
    use kevel_server::request::RequestBody;

    use super::*;
    use crate::api_service::{ApiService, GROUP};
    use crate::testing::{ExtensionServer, storage};

    /// A server that is not available, or not found, is not asked.
    #[tokio::test]
    async fn requests_reach_servers_that_are_available() {
        let (services, _caches) = storage("", "Service", "services/specs");
        let (known, _known) = storage(GROUP, "APIService", "apiregistration.k8s.io/apiservices");
        let server = ExtensionServer::start(&["200 OK"]).await;
        for (available, port, expected, asked) in [
            ("True", 443, 200, 1),
            ("False", 443, 503, 0),
            ("Unknown", 443, 503, 0),
            ("True", 80, 503, 0),
        ] {
            let object = format!(
                r#"{{"metadata":{{"name":"v1.e.x"}},"spec":{{"group":"e.x","version":"v1",
                    "service":{{"namespace":"default","name":"kubernetes","port":{port}}}}},
                    "status":{{"conditions":[{{"type":"Available","status":"{available}"}}]}}}}"#
            );
            let object = decode_any(object.as_bytes(), Unknown::Ignore).unwrap().value;
            let service = ApiService::read(&object);
            let mut upstream = Arc::into_inner(server.upstream()).unwrap();
            upstream.service.port = port;
            let one = Registered { service, upstream: Some(Arc::new(upstream)) };
            let proxy = Proxy {
                services: Arc::new(ApiServices::new(known.clone(), None, Dialer::default())),
                resolver: Arc::new(server.resolver(&services)),
                reject_forwarding_redirects: false,
            };
            let parts = http::Request::get("/apis/e.x/v1/things").body(()).unwrap().into_parts().0;
            let body = RequestBody::Bytes(Bytes::new());
            let mut request = Request::new(parts, body, Arc::default()).unwrap();
            request.user = Some(Arc::new(User::anonymous()));
            let before = server.connections();
            let answer = proxy.pass_on(&one, request).await;
            assert_eq!(answer.status(), expected, "{available} {port}");
            if expected != 200 {
                let text = answer.body().bytes().unwrap();
                assert_eq!(text, "service unavailable\n", "{available} {port}");
            }
            assert_eq!(server.connections() - before, asked, "{available} {port}");
        }
    }

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
