//! A server on a memory store, without a socket.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kevel_controlplane::admission::NamespaceLifecycle;
use kevel_controlplane::service::{PortRange, RepairPorts, Services};
use kevel_controlplane::{RowsConfig, StorageOptions, rows, storages};
use kevel_server::admission::Admission;
use kevel_server::authorization::{AlwaysAllow, Authorizer};
use kevel_server::body::Body;
use kevel_server::delegate::Delegate;
use kevel_server::endpoints::Endpoints;
use kevel_server::handler::Handler;
use kevel_server::request::{Request, RequestBody};
use kevel_server::resource::Resources;
use kevel_server::storage::Format;
use kevel_store::Engine;
use kevel_store::cache::Caches;
use kevel_store::embedded::{Embedded, Options};

pub struct Server {
    pub delegate: Delegate,
    _caches: Caches,
}

impl Server {
    /// A server on which everybody may do everything.
    pub async fn start(format: Format) -> Self {
        Server::with(format, Arc::new(AlwaysAllow)).await
    }

    /// A server whose endpoints ask an authorizer where one verb turns into another.
    pub async fn with(format: Format, authorizer: Arc<dyn Authorizer>) -> Self {
        let engine = Arc::new(Embedded::memory(Options::default()).unwrap());
        Server::new(engine, format, authorizer, None).await
    }

    /// A server that gives services addresses of a network and ports of a range.
    pub async fn with_services(engine: Arc<dyn Engine>, cidr: &str, ports: PortRange) -> Self {
        let allow = Arc::new(AlwaysAllow);
        let server = Server::new(engine, Format::Json, allow, Some((cidr, ports))).await;
        let cidr =
            format!(r#"{{"metadata":{{"name":"kubernetes"}},"spec":{{"cidrs":["{cidr}"]}}}}"#);
        server.ok("POST /apis/networking.k8s.io/v1/servicecidrs", &cidr, 201).await;
        server
    }

    async fn new(
        engine: Arc<dyn Engine>,
        format: Format,
        authorizer: Arc<dyn Authorizer>,
        services: Option<(&str, PortRange)>,
    ) -> Self {
        let caches = Caches::start(engine.clone(), "/registry/");
        let options = StorageOptions { prefix: "/registry".into(), format };
        let resources = Resources::default();
        let storages = storages(|resource| resource.on, &options, &engine, &caches).unwrap();
        let mut config = RowsConfig::new(&storages);
        if let Some((cidr, ports)) = services {
            let network = [cidr.split_once('/').unwrap().0.parse().unwrap()];
            let services = Services::new(&storages, &network, ports, &options, &engine, &caches);
            let services = services.unwrap();
            RepairPorts::new(&services).first().await;
            config.allocations.push((("", "services"), services.allocation()));
        }
        resources.install(rows(|resource| resource.on, &config).unwrap());
        let namespaces = resources.current().get("", "v1", "namespaces").unwrap().storage.clone();
        let lifecycle = NamespaceLifecycle::new(namespaces.unwrap());
        let delegate = Delegate {
            name: "kube",
            resources: Arc::new(resources),
            endpoints: Arc::new(Endpoints {
                admission: Admission::new(vec![Arc::new(lifecycle)]),
                authorizer: Some(authorizer),
            }),
            paths: Vec::new(),
            next: None,
        };
        let server = Server { delegate, _caches: caches };
        server.ok("POST /api/v1/namespaces", r#"{"metadata":{"name":"ns"}}"#, 201).await;
        server
    }

    /// `GET /api/v1/pods`
    pub async fn send(&self, what: &str, body: &str, content_type: &str) -> http::Response<Body> {
        self.send_bytes(what, body.to_owned().into(), content_type).await
    }

    /// The same, for a body that is no text.
    pub async fn send_bytes(
        &self,
        what: &str,
        body: Bytes,
        content_type: &str,
    ) -> http::Response<Body> {
        let (method, uri) = what.split_once(' ').unwrap();
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", content_type)
            .body(())
            .unwrap();
        let body = RequestBody::Bytes(body);
        let request = Request::new(request.into_parts().0, body, Arc::default()).unwrap();
        self.delegate.handle(request).await
    }

    /// The answer to a request in a form.
    pub async fn accept(&self, what: &str, accept: &str) -> http::Response<Body> {
        let (method, uri) = what.split_once(' ').unwrap();
        let request = http::Request::builder().method(method).uri(uri).header("accept", accept);
        let parts = request.body(()).unwrap().into_parts().0;
        let request =
            Request::new(parts, RequestBody::Bytes(Bytes::new()), Arc::default()).unwrap();
        self.delegate.handle(request).await
    }

    /// The answer to a request with a JSON body, which must have this code.
    pub async fn ok(&self, what: &str, body: &str, code: u16) -> String {
        self.typed(what, body, code, "application/json").await
    }

    /// The same, for a body of another type.
    pub async fn typed(&self, what: &str, body: &str, code: u16, content_type: &str) -> String {
        let response = self.send(what, body, content_type).await;
        let found = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(found, code, "{what}: {text}");
        text
    }
}

/// The text behind a name in JSON.
pub fn field<'t>(text: &'t str, name: &str) -> &'t str {
    let start = text.find(&format!("\"{name}\":\"")).unwrap_or_else(|| panic!("{name} in {text}"));
    let rest = &text[start + name.len() + 4..];
    &rest[..rest.find('"').unwrap()]
}
