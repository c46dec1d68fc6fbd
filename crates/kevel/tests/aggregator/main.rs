//! The aggregation layer, against an extension API server of the tests' own.

#![allow(clippy::unwrap_used)]

mod discovery;
mod extension_server;
mod proxy;
mod registration;
mod remote;

use std::net::SocketAddr;

use extension_server::{ExtensionServer, GROUP};
use kevel_test_support::{Ca, Cluster, until, write_pair};
use serde_json::{Value, json};

/// File of the CA bundle of the aggregator's certificate, in the cluster's folder.
const FRONT_PROXY: &str = "front-proxy.crt";

/// A server that asks extension servers at their endpoints.
async fn start(flags: &[&str]) -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    let front_proxy = Ca::new("front-proxy");
    std::fs::write(folder.path().join(FRONT_PROXY), &front_proxy.pem).unwrap();
    write_pair(folder.path(), "proxy", &front_proxy.client("aggregator"));
    let file = |name: &str| folder.path().join(name).display().to_string();
    let own = [
        "--enable-aggregator-routing".to_owned(),
        format!("--proxy-client-cert-file={}", file("proxy.crt")),
        format!("--proxy-client-key-file={}", file("proxy.key")),
    ];
    let flags = own.into_iter().chain(flags.iter().map(|flag| (*flag).to_owned())).collect();
    Cluster::on(folder, flags).await
}

/// Requests to a server about aggregation.
trait Aggregation {
    /// CA bundle that an extension server accepts for the aggregator's certificate.
    fn front_proxy(&self) -> String;

    async fn extension_server(&self, http2: bool) -> ExtensionServer;

    /// A Service with an endpoint, and the API service that it stands behind.
    async fn aggregate(&self, extension: &ExtensionServer);

    async fn create_service(&self, address: SocketAddr);

    async fn create_api_service(&self, more: Value) -> Value;

    /// Whether the extension server is available, and why.
    async fn condition(&self) -> Value;
}

impl Aggregation for Cluster {
    fn front_proxy(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(FRONT_PROXY)).unwrap()
    }

    async fn extension_server(&self, http2: bool) -> ExtensionServer {
        ExtensionServer::start("wardle", &self.front_proxy(), http2, 0).await
    }

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
        self.admin.create("/api/v1/namespaces/default/services", &service).await;
        let slice = json!({
            "metadata": {"name": "wardle-1", "labels": {"kubernetes.io/service-name": "wardle"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": address.port()}],
            "endpoints": [{"addresses": [address.ip()], "conditions": {"ready": true}}],
        });
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        self.admin.create(slices, &slice).await;
    }

    async fn create_api_service(&self, more: Value) -> Value {
        let mut spec = json!({
            "group": GROUP, "version": "v1alpha1",
            "groupPriorityMinimum": 2000, "versionPriority": 200,
            "service": {"namespace": "default", "name": "wardle"},
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let service = json!({"metadata": {"name": format!("v1alpha1.{GROUP}")}, "spec": spec});
        self.admin.create(API_SERVICES, &service).await
    }

    async fn condition(&self) -> Value {
        let (_, service) = self.admin.get(&format!("{API_SERVICES}/v1alpha1.{GROUP}")).await;
        service["status"]["conditions"][0].clone()
    }
}

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

fn base64(text: &str) -> String {
    kevel_codec::base64::encode(text.as_bytes()).to_string()
}
