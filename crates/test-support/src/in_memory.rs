//! Built-in kinds on a memory store, without a socket.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kevel_admission_plugins::NamespaceLifecycle;
use kevel_api::builtin;
use kevel_controlplane::service::{IpAllocation, PortRange, RepairPorts, Services};
use kevel_controlplane::{RowsConfig, StorageOptions, rows, storages};
use kevel_features::FeatureSet;
use kevel_registry::admission::Admission;
use kevel_registry::backends::{Backend, Backends};
use kevel_registry::resource::Resources;
use kevel_registry::storage::Format;
use kevel_registry::storages::Storages;
use kevel_registry::user::User;
use kevel_server::authorization::{AlwaysAllow, Authorizer};
use kevel_server::body::Body;
use kevel_server::delegate::Delegate;
use kevel_server::endpoints::{Endpoints, MIN_REQUEST_TIMEOUT};
use kevel_server::handler::Handler as _;
use kevel_server::request::{Request, RequestBody};
use kevel_store::Engine;
use kevel_store::embedded::{Embedded, Options};

/// Endpoints of the built-in kinds, without the handler chain before them: requests are not authenticated, and the
/// authorizer is asked only where one verb turns into another.
#[allow(missing_debug_implementations, reason = "rows have functions")]
pub struct InMemory {
    /// Delegate that answers requests.
    pub delegate: Arc<Delegate>,
    _backends: Backends,
}

/// Warnings for the client, as an extension of responses, because the handler that makes headers of them is missing.
#[derive(Clone, Debug)]
pub struct Warnings(pub Vec<String>);

/// Optional features of the server.
#[derive(Default)]
struct Served<'a> {
    /// Network and ports of services.
    services: Option<(&'a str, PortRange)>,
    /// Feature gates; if set, all versions of all groups are served.
    features: Option<FeatureSet>,
}

impl InMemory {
    /// Makes a server on which everything is allowed, with a namespace `ns`.
    pub async fn start(format: Format) -> Self {
        InMemory::with(format, Arc::new(AlwaysAllow)).await
    }

    /// Makes a server with an authorizer.
    pub async fn with(format: Format, authorizer: Arc<dyn Authorizer>) -> Self {
        InMemory::new(memory(), format, authorizer, Served::default()).await
    }

    /// Makes a server on a store, which allocates service addresses from a network and ports from a range.
    pub async fn with_services(
        engine: Arc<dyn Engine>,
        format: Format,
        cidr: &str,
        ports: PortRange,
    ) -> Self {
        let allow = Arc::new(AlwaysAllow);
        let served = Served { services: Some((cidr, ports)), ..Served::default() };
        let server = InMemory::new(engine, format, allow, served).await;
        let cidr =
            format!(r#"{{"metadata":{{"name":"kubernetes"}},"spec":{{"cidrs":["{cidr}"]}}}}"#);
        server.ok("POST /apis/networking.k8s.io/v1/servicecidrs", &cidr, 201).await;
        server
    }

    /// Makes a server with all versions of all groups, and with these feature gates.
    pub async fn with_features(format: Format, features: FeatureSet) -> Self {
        let served = Served { features: Some(features), ..Served::default() };
        InMemory::new(memory(), format, Arc::new(AlwaysAllow), served).await
    }

    async fn new(
        engine: Arc<dyn Engine>,
        format: Format,
        authorizer: Arc<dyn Authorizer>,
        served: Served<'_>,
    ) -> Self {
        let server = InMemory::build(engine, format, served, |storages| {
            let lifecycle = NamespaceLifecycle::new(storages.required("", "namespaces").unwrap());
            let admission = Admission::new(vec![Arc::new(lifecycle)]);
            let min_request_timeout = MIN_REQUEST_TIMEOUT;
            Endpoints {
                admission,
                authorizer: Some(authorizer),
                min_request_timeout,
                connecters: Default::default(),
                features: Default::default(),
                shard_selectors: None,
            }
        });
        let server = server.await;
        server.ok("POST /api/v1/namespaces", r#"{"metadata":{"name":"ns"}}"#, 201).await;
        server
    }

    /// Makes an empty in-memory server with custom endpoints over its storages.
    pub async fn empty(format: Format, endpoints: impl FnOnce(&Storages) -> Endpoints) -> Self {
        InMemory::build(memory(), format, Served::default(), endpoints).await
    }

    async fn build(
        engine: Arc<dyn Engine>,
        format: Format,
        served: Served<'_>,
        endpoints: impl FnOnce(&Storages) -> Endpoints,
    ) -> Self {
        let on = |resource: &builtin::Resource| served.features.is_some() || resource.on;
        let backends = Backends::new(Backend::new(engine.clone(), "/registry/"));
        let caches = &backends.default.caches;
        let options = StorageOptions::new(format);
        let storages = storages(on, &options, &backends).unwrap();
        let mut config = RowsConfig::new(&storages);
        config.capabilities.features = served.features.unwrap_or_default();
        if let Some((cidr, ports)) = served.services {
            let (network, mode) = ([cidr.to_owned()], IpAllocation::Addresses);
            let services =
                Services::new(&storages, &network, mode, ports, &options, &engine, caches);
            let services = services.unwrap();
            RepairPorts::new(&services).first().await;
            config.allocations.push((("", "services"), services.allocation(&config.capabilities)));
        }
        let resources = Resources::default();
        resources.install(rows(on, &config).unwrap());
        let (resources, endpoints) = (Arc::new(resources), Arc::new(endpoints(&storages)));
        let delegate = Delegate {
            name: "kube",
            resources,
            owns_groups: true,
            endpoints,
            paths: Vec::new(),
            next: None,
        };
        InMemory { delegate: Arc::new(delegate), _backends: backends }
    }

    /// Sends a request such as `GET /api/v1/pods`, with headers and a body, as a user.
    pub async fn send_as(
        &self,
        user: Option<User>,
        what: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> http::Response<Body> {
        let (method, uri) = what.split_once(' ').unwrap();
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        let mut request = Request::new(parts, RequestBody::Bytes(body), Arc::default()).unwrap();
        request.user = user.map(Arc::new);
        let warnings = request.warnings.clone();
        let mut response = self.delegate.handle(request).await;
        response.extensions_mut().insert(Warnings(warnings.take()));
        response
    }

    /// Sends a request with a body.
    pub async fn send(&self, what: &str, body: &str, content_type: &str) -> http::Response<Body> {
        self.send_bytes(what, body.to_owned().into(), content_type).await
    }

    /// Sends a request with a binary body.
    pub async fn send_bytes(
        &self,
        what: &str,
        body: Bytes,
        content_type: &str,
    ) -> http::Response<Body> {
        self.send_as(None, what, &[("content-type", content_type)], body).await
    }

    /// Sends a request with an Accept header.
    pub async fn accept(&self, what: &str, accept: &str) -> http::Response<Body> {
        self.send_as(None, what, &[("accept", accept)], Bytes::new()).await
    }

    /// Sends a request with a JSON body; fails unless the answer has this code.
    pub async fn ok(&self, what: &str, body: &str, code: u16) -> String {
        self.typed(what, body, code, "application/json").await
    }

    /// Sends a request with a body of another type; fails unless the answer has this code.
    pub async fn typed(&self, what: &str, body: &str, code: u16, content_type: &str) -> String {
        let response = self.send(what, body, content_type).await;
        let found = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(found, code, "{what}: {text}");
        text
    }
}

fn memory() -> Arc<dyn Engine> {
    Arc::new(Embedded::memory(Options::default()).unwrap())
}
