//! The cluster that documents are checked against: the real server on a store in memory, without a port.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use http_body_util::BodyExt as _;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::{Status, StatusError};
use kevel_api::value::Value;
use kevel_clock::monotonic_now;
use kevel_codec::json::{self, Unknown};
use kevel_compute::Metered;
use kevel_registry::resource::Resource;
use kevel_registry::user::{ALL_AUTHENTICATED, PRIVILEGED, User};
use kevel_registry::verb::Verb;
use kevel_server::request::{Connection, Request, RequestBody, json_text};
use kevel_server::responses::ResponseObject;

use crate::options::ServerRunOptions;
use crate::server::{self, InProcessServer};

/// Flags of the server. Nothing leaves the process: webhooks are not called, there are no controllers, and what answers
/// for services and nodes is never asked. Privileged containers are allowed, as in every cluster that runs its network
/// in pods.
const FLAGS: [&str; 12] = [
    "--storage=memory",
    "--bind-address=127.0.0.1",
    // Of no network (RFC 5737), so that the address of this machine is not looked for.
    "--advertise-address=192.0.2.1",
    "--external-hostname=kubernetes.default.svc",
    "--endpoint-reconciler-type=none",
    "--controllers=",
    "--enable-priority-and-fairness=false",
    "--etcd-compaction-interval=0",
    "--allow-privileged=true",
    // kubeadm's; Services of a cluster have addresses of it.
    "--service-cluster-ip-range=10.96.0.0/12",
    "--authorization-mode=RBAC",
    "--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook",
];

/// Longest time for a document. A server gives every request a minute.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Field manager of `kubectl apply`.
pub const FIELD_MANAGER: &str = "kubectl-client-side-apply";

/// Mistake in the flags of the server.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The flags do not make sense.
    #[error("{0}")]
    Flags(String),
    /// The server does not start.
    #[error("the server does not start: {0}")]
    Start(String),
}

/// The server, and who asks it.
pub struct CheckCluster {
    server: InProcessServer,
    user: Arc<User>,
    connection: Arc<Connection>,
}

/// A request.
pub struct CheckRequest<'a> {
    /// Method.
    pub method: Method,
    /// Path and query.
    pub path: &'a str,
    /// Body.
    pub body: Bytes,
    /// Media type of the body.
    pub media_type: &'static str,
}

/// Response of a request.
#[derive(Debug)]
pub struct CheckResponse {
    /// The object, or the failure.
    pub result: Result<Value, Status>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

impl CheckCluster {
    /// Starts a server with these flags besides its own.
    pub async fn start(flags: &[String]) -> Result<Self, ClusterError> {
        let mut options = ServerRunOptions::default();
        let flags = FLAGS.iter().map(|flag| (*flag).to_owned()).chain(flags.iter().cloned());
        options.parse(flags.collect::<Vec<_>>()).map_err(ClusterError::Flags)?;
        let options = options.complete().map_err(ClusterError::Flags)?;
        let errors = options.validate();
        if !errors.is_empty() {
            return Err(ClusterError::Flags(errors.join("; ")));
        }
        let prepared = server::prepare(options.without_port()).await;
        let prepared = prepared.map_err(|error| ClusterError::Start(error.to_string()))?;
        let server = prepared.start_in_process().await;
        let server = server.map_err(|error| ClusterError::Start(error.to_string()))?;
        let user = User {
            name: "kubernetes-admin".into(),
            groups: vec![PRIVILEGED.into(), ALL_AUTHENTICATED.into()],
            ..User::default()
        };
        let peer = Some((Ipv6Addr::LOCALHOST, 0).into());
        let connection = Connection { peer, ..Connection::default() };
        Ok(CheckCluster { server, user: Arc::new(user), connection: Arc::new(connection) })
    }

    /// The resource of a kind, if objects of it can be created.
    pub fn resource(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let is_it =
            |of: &GroupVersionKind| of.kind == kind && of.group == group && of.version == version;
        self.server.tables.iter().find_map(|table| {
            let rows = table.current();
            let mut rows = rows.all();
            rows.find(|row| is_it(&row.kind) && row.allows(Verb::Create)).cloned()
        })
    }

    /// Sends a request.
    pub async fn send(&self, request: CheckRequest<'_>) -> CheckResponse {
        match self.request(request) {
            Ok(request) => {
                let warnings = request.warnings.clone();
                let result = self.answer(request).await;
                CheckResponse { result, warnings: warnings.take() }
            }
            Err(error) => CheckResponse { result: Err(error.into_status()), warnings: Vec::new() },
        }
    }

    /// Creates an object of the command's own.
    pub async fn create(&self, path: &str, object: &Value) -> Result<(), Status> {
        let (method, body) = (Method::POST, json_text(object));
        let request = CheckRequest { method, path, body, media_type: "application/json" };
        self.send(request).await.result.map(drop)
    }

    /// Reads an object.
    pub async fn get(&self, path: &str) -> Result<Value, Status> {
        let (method, body) = (Method::GET, Bytes::new());
        let request = CheckRequest { method, path, body, media_type: "application/json" };
        let request = self.request(request).map_err(StatusError::into_status)?;
        self.answer(request).await
    }

    fn request(&self, request: CheckRequest<'_>) -> Result<Request, StatusError> {
        let CheckRequest { method, path, body, media_type } = request;
        let parts = http::Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, HeaderValue::from_static(media_type))
            .body(())
            .map_err(StatusError::internal)?;
        let body = RequestBody::Bytes(body);
        let request = Request::new(parts.into_parts().0, body, self.connection.clone());
        let mut request = request.ok_or_else(|| StatusError::bad_request("invalid path"))?;
        request.user = Some(self.user.clone());
        request.in_process = true;
        let deadline = monotonic_now() + REQUEST_TIMEOUT;
        request.deadline = Some(deadline);
        request.meter.set_deadline(deadline);
        Ok(request)
    }

    async fn answer(&self, request: Request) -> Result<Value, Status> {
        let meter = request.meter.clone();
        let answered = Metered::new(self.server.handler.handle(request), meter);
        let answered = tokio::time::timeout(REQUEST_TIMEOUT, answered).await;
        let Ok(mut response) = answered else {
            let error =
                StatusError::timeout("request did not complete within the allotted timeout", 0);
            return Err(error.into_status());
        };
        match response.extensions_mut().remove() {
            Some(ResponseObject::Object(object, _)) => return Ok(object),
            Some(ResponseObject::Failure(status)) => return Err(status),
            None => {}
        }
        let code = response.status();
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| StatusError::internal(error).into_status())?.to_bytes();
        if !code.is_success() {
            let text = String::from_utf8_lossy(&body);
            return Err(StatusError::unknown(code.as_u16(), text.trim_end()).into_status());
        }
        let decoded = json::decode_any(&body, Unknown::Ignore);
        decoded
            .map(|decoded| decoded.value)
            .map_err(|error| StatusError::internal(error).into_status())
    }
}

/// Path at which objects of a resource are created.
pub fn collection_path(resource: &Resource, namespace: &str) -> String {
    let (api_version, plural) = (resource.api_version(), &resource.plural);
    let root = if resource.kind.group.is_empty() { "api" } else { "apis" };
    match resource.namespaced {
        true => format!("/{root}/{api_version}/namespaces/{}/{plural}", escaped(namespace)),
        false => format!("/{root}/{api_version}/{plural}"),
    }
}

/// Path at which all objects of a resource are listed.
pub fn list_path(resource: &Resource) -> String {
    let root = if resource.kind.group.is_empty() { "api" } else { "apis" };
    format!("/{root}/{}/{}", resource.api_version(), resource.plural)
}

/// A part of a path with everything escaped that a path cannot have.
pub fn escaped(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
