//! The aggregation layer, against an extension API server of the tests' own.

#![allow(clippy::unwrap_used)]

#[path = "../identity/ca.rs"]
mod ca;
mod discovery;
mod extension_server;
mod proxy;
mod registration;
mod remote;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use ca::Ca;
use extension_server::{ExtensionServer, GROUP};
use kevel::{Builder, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server, and what stands behind it.
struct Cluster {
    server: Server,
    client: kube::Client,
    flags: Vec<String>,
    /// Vouches for the aggregator.
    front_proxy: Ca,
    folder: TempDir,
}

impl Cluster {
    /// A server that asks extension servers at their endpoints.
    async fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let front_proxy = Ca::new("front-proxy");
        let (certificate, key) = front_proxy.client("aggregator");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let own = [
            "--storage=memory".to_owned(),
            "--enable-aggregator-routing".to_owned(),
            format!("--proxy-client-cert-file={}", write("proxy.crt", &certificate)),
            format!("--proxy-client-key-file={}", write("proxy.key", &key)),
        ];
        let flags = own.into_iter().chain(flags.iter().map(|flag| (*flag).to_owned()));
        Self::serve(flags.collect(), front_proxy, folder).await
    }

    async fn serve(flags: Vec<String>, front_proxy: Ca, folder: TempDir) -> Self {
        let builder = Server::builder().data_dir(folder.path().join("data"));
        let builder = flags.iter().fold(builder, |builder: Builder, flag| builder.flag(flag));
        let server = builder.start().await.unwrap();
        let mut config = server.client_config().await.unwrap();
        // A failure is an answer here.
        config.default_retry = false;
        let client = kube::Client::try_from(config).unwrap();
        let cluster = Cluster { server, client, flags, front_proxy, folder };
        until(async || cluster.get("/api/v1/namespaces/default").await.0 == 200).await;
        cluster
    }

    /// The same again, with what was stored.
    async fn restart(self) -> Self {
        let Cluster { server, client, flags, front_proxy, folder } = self;
        drop(client);
        server.stop().await.unwrap();
        Self::serve(flags, front_proxy, folder).await
    }

    async fn extension_server(&self, http2: bool) -> ExtensionServer {
        ExtensionServer::start("wardle", &self.front_proxy, http2, 0).await
    }

    /// A Service with an endpoint, and the API service that it stands behind.
    async fn aggregate(&self, extension: &ExtensionServer) {
        self.create_service(extension.address).await;
        self.create_api_service(json!({"caBundle": base64(&extension.ca)})).await;
        until(async || self.condition().await["status"] == "True").await;
    }

    async fn create_service(&self, address: SocketAddr) {
        let service = json!({
            "metadata": {"name": "wardle"},
            "spec": {"ports": [{"name": "https", "port": 443}]},
        });
        self.create("/api/v1/namespaces/default/services", &service).await;
        let slice = json!({
            "metadata": {"name": "wardle-1", "labels": {"kubernetes.io/service-name": "wardle"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": address.port()}],
            "endpoints": [{"addresses": [address.ip()], "conditions": {"ready": true}}],
        });
        self.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).await;
    }

    async fn create_api_service(&self, more: Value) -> Value {
        let mut spec = json!({
            "group": GROUP, "version": "v1alpha1",
            "groupPriorityMinimum": 2000, "versionPriority": 200,
            "service": {"namespace": "default", "name": "wardle"},
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let service = json!({"metadata": {"name": format!("v1alpha1.{GROUP}")}, "spec": spec});
        self.create(API_SERVICES, &service).await
    }

    /// Whether the extension server is available, and why.
    async fn condition(&self) -> Value {
        let (_, service) = self.get(&format!("{API_SERVICES}/v1alpha1.{GROUP}")).await;
        service["status"]["conditions"][0].clone()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, &[], "").await
    }

    async fn create(&self, path: &str, object: &Value) -> Value {
        let headers = [("content-type", "application/json")];
        let (code, made) = self.send("POST", path, &headers, &object.to_string()).await;
        assert_eq!(code, 201, "{path}: {made}");
        made
    }

    async fn delete(&self, path: &str) {
        let (code, answer) = self.send("DELETE", path, &[], "").await;
        assert_eq!(code, 200, "{path}: {answer}");
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, Value) {
        let answer = self.raw(method, path, headers, body).await;
        let (code, text) = (answer.status().as_u16(), answer.into_body());
        (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// An answer as it is.
    async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> http::Response<String> {
        use http_body_util::BodyExt as _;
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(kube::client::Body::from(body.as_bytes().to_vec())).unwrap();
        let (parts, body) = self.client.send(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        http::Response::from_parts(parts, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn stop(self) {
        self.server.stop().await.unwrap();
    }
}

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

fn base64(text: &str) -> String {
    kevel_codec::base64::encode(text.as_bytes()).to_string()
}

/// Waits until something is so.
async fn until<F: Future<Output = bool>>(mut so: impl FnMut() -> F) {
    let waiting = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
}
