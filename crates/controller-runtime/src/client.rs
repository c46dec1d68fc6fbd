//! In-process client: requests from inside the server, with admission, without a socket and without encoding: objects
//! and failures are passed as trees (upstream: `LoopbackClientConfig`).

use std::net::Ipv6Addr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use http_body_util::BodyExt as _;
use kevel_api::status::{FAILURE, Status, StatusError};
use kevel_api::value::{Map, Value};
use kevel_clock::Clock;
use kevel_codec::json;
use kevel_patch::unstructured;

use kevel_registry::user::{ALL_AUTHENTICATED, APISERVER, PRIVILEGED, User};
use kevel_server::handler::Handler;
use kevel_server::lifecycle::RequestGroup;
use kevel_server::request::{Connection, Request, RequestBody};
use kevel_server::responses::ResponseObject;
use kevel_server::version;

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
/// Namespace of the controllers' service accounts.
const CONTROLLERS: &str = "kube-system";

/// API client of controllers, as the user `system:apiserver` or as the service account of a controller.
#[derive(Clone)]
pub struct Client {
    server: Arc<dyn Handler>,
    user: Arc<User>,
    user_agent: HeaderValue,
    connection: Arc<Connection>,
    /// Requests under way, if the client can be stopped.
    requests: Option<RequestGroup>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.user.name)
    }
}

impl Client {
    /// A client of `server`: the handler behind the chain, or [the internal chain](kevel_server::chain::internal).
    pub fn new(server: Arc<dyn Handler>) -> Self {
        let user = User {
            name: APISERVER.into(),
            // A new UID at each start, as in the reference.
            uid: uuid::Uuid::new_v4().to_string(),
            groups: vec![ALL_AUTHENTICATED.into(), PRIVILEGED.into()],
            ..User::default()
        };
        let peer = Some((Ipv6Addr::LOCALHOST, 0).into());
        let user_agent = HeaderValue::try_from(version::Info::default().user_agent());
        Client {
            server,
            user: Arc::new(user),
            user_agent: user_agent.unwrap_or(HeaderValue::from_static("kube-apiserver")),
            connection: Arc::new(Connection { peer, ..Connection::default() }),
            requests: None,
        }
    }

    /// The client as the service account of a controller in `kube-system`, with the controller manager's user agent:
    /// the fields that it writes are those of a controller manager that takes over.
    #[must_use]
    pub fn as_controller(&self, account: &str) -> Self {
        let name = format!("system:serviceaccount:{CONTROLLERS}:{account}");
        let agent = version::Info::default().user_agent_of("kube-controller-manager");
        let agent = HeaderValue::try_from(format!("{agent}/{name}"));
        let user = User {
            name,
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{CONTROLLERS}"),
                ALL_AUTHENTICATED.into(),
            ],
            ..User::default()
        };
        let agent = agent.unwrap_or(HeaderValue::from_static("kube-controller-manager"));
        Client { user: Arc::new(user), user_agent: agent, ..self.clone() }
    }

    /// The client as the user of a controller manager itself, with the controller's name in its user agent.
    #[must_use]
    pub fn as_controller_manager(&self, controller: &str) -> Self {
        let agent = version::Info::default().user_agent_of("kube-controller-manager");
        let agent = HeaderValue::try_from(format!("{agent}/{controller}"));
        let user = User {
            name: "system:kube-controller-manager".into(),
            groups: vec![ALL_AUTHENTICATED.into()],
            ..User::default()
        };
        let agent = agent.unwrap_or(HeaderValue::from_static("kube-controller-manager"));
        Client { user: Arc::new(user), user_agent: agent, ..self.clone() }
    }

    /// The client with its requests in a group: once that is drained, requests fail at once.
    #[must_use]
    pub fn stopped_with(self, requests: RequestGroup) -> Self {
        Client { requests: Some(requests), ..self }
    }

    /// The client with the server's clock.
    pub fn with_clock(self, clock: Clock) -> Self {
        let connection = Connection { peer: self.connection.peer, clock, ..Connection::default() };
        Client { connection: Arc::new(connection), ..self }
    }

    /// Clock of the server.
    pub fn clock(&self) -> &Clock {
        &self.connection.clock
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> Result<Value, StatusError> {
        self.send(Method::GET, path, None, "").await
    }

    /// Reads a document in a form that `accept` names.
    pub async fn get_as(&self, path: &str, accept: &'static str) -> Result<Value, StatusError> {
        let accept = Some(HeaderValue::from_static(accept));
        self.request(Method::GET, path, None, "", accept).await
    }

    /// Creates an object.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, StatusError> {
        self.send(Method::POST, path, Some(object), JSON).await
    }

    /// Updates an object.
    pub async fn update(&self, path: &str, object: &Value) -> Result<Value, StatusError> {
        self.send(Method::PUT, path, Some(object), JSON).await
    }

    /// Applies a configuration with a field manager, forced.
    pub async fn apply(
        &self,
        path: &str,
        configuration: &Value,
        manager: &str,
    ) -> Result<Value, StatusError> {
        let path = format!("{path}?force=true&fieldManager={manager}");
        self.send(Method::PATCH, &path, Some(configuration), "application/apply-patch+yaml").await
    }

    /// Changes an object by a JSON merge patch.
    pub async fn merge_patch(&self, path: &str, patch: &Value) -> Result<Value, StatusError> {
        self.send(Method::PATCH, path, Some(patch), MERGE_PATCH).await
    }

    /// Changes an object by a strategic merge patch.
    pub async fn strategic_merge_patch(
        &self,
        path: &str,
        patch: &Value,
    ) -> Result<Value, StatusError> {
        self.send(Method::PATCH, path, Some(patch), STRATEGIC_MERGE_PATCH).await
    }

    /// Deletes an object, or all objects of a collection, with these DeleteOptions.
    pub async fn delete_with(&self, path: &str, options: &Value) -> Result<Value, StatusError> {
        self.send(Method::DELETE, path, Some(options), JSON).await
    }

    /// Deletes an object.
    pub async fn delete(&self, path: &str) -> Result<Value, StatusError> {
        self.send(Method::DELETE, path, None, "").await
    }

    /// Deletes an object with preconditions: only in the state that was seen.
    pub async fn delete_seen(&self, path: &str, seen: &Value) -> Result<Value, StatusError> {
        let of = |field: &str| seen.at(&["metadata", field]).cloned().unwrap_or_default();
        let preconditions =
            Map::from_iter([("uid", of("uid")), ("resourceVersion", of("resourceVersion"))]);
        let options = Map::from_iter([("preconditions", Value::Map(preconditions))]);
        self.send(Method::DELETE, path, Some(&Value::Map(options)), JSON).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        object: Option<&Value>,
        content_type: &str,
    ) -> Result<Value, StatusError> {
        self.request(method, path, object, content_type, None).await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        object: Option<&Value>,
        content_type: &str,
        accept: Option<HeaderValue>,
    ) -> Result<Value, StatusError> {
        let entered = self.requests.as_ref().map(RequestGroup::enter);
        if matches!(entered, Some(None)) {
            return Err(StatusError::service_unavailable("the controller is stopped"));
        }
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::USER_AGENT, self.user_agent.clone())
            .body(())
            .map_err(StatusError::internal)?;
        let body = match object {
            Some(object) => RequestBody::Object(object.clone()),
            None => RequestBody::Bytes(Bytes::new()),
        };
        let mut parts = request.into_parts().0;
        if let Some(accept) = accept {
            parts.headers.insert(header::ACCEPT, accept);
        }
        let request = Request::new(parts, body, self.connection.clone());
        let mut request =
            request.ok_or_else(|| StatusError::internal("a path that cannot be read"))?;
        request.user = Some(self.user.clone());
        request.in_process = true;
        let mut response = self.server.handle(request).await;
        match response.extensions_mut().remove() {
            Some(ResponseObject::Object(object, ty)) => {
                return Ok(unstructured(&object, ty.schema()));
            }
            Some(ResponseObject::Failure(status)) => return Err(StatusError::from(status)),
            None => {}
        }
        let code = response.status();
        // Reads return the cache's JSON; a list is streamed.
        let body = response.into_body().collect().await;
        let body = body.map_err(StatusError::internal)?.to_bytes();
        if !code.is_success() {
            return Err(failure(code.as_u16(), &body));
        }
        let answer =
            json::decode_any(&body, json::Unknown::Ignore).map_err(StatusError::internal)?;
        Ok(answer.value)
    }
}

/// Error of a response that another server gave, or that is no Status.
fn failure(code: u16, body: &[u8]) -> StatusError {
    let told = json::decode_any(body, json::Unknown::Ignore).ok().map(|answer| answer.value);
    match told.filter(|told| told.str_at(&["kind"]) == "Status") {
        Some(told) => StatusError::from(Status {
            status: FAILURE.into(),
            message: told.str_at(&["message"]).to_owned().into(),
            reason: told.str_at(&["reason"]).to_owned().into(),
            code,
            ..Status::default()
        }),
        None => StatusError::unknown(code, String::from_utf8_lossy(body).trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use kevel_api::field_error::{FieldError, FieldErrors, Path};
    use kevel_api::gvk::{GroupKind, GroupResource};

    use super::*;
    use kevel_component::future::Pending;
    use kevel_server::handler::Response;
    use kevel_server::responses;

    /// Refuses every request with an error.
    struct Refuses(StatusError);

    impl Handler for Refuses {
        fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
            Box::pin(std::future::ready(responses::failure_to(&request, self.0.clone())))
        }
    }

    #[tokio::test]
    async fn an_error_comes_back_whole() {
        let pods = GroupResource::new("", "pods");
        let root = Path::new("spec");
        let causes = [
            FieldError::required(&root.child("a"), ""),
            FieldError::invalid(&root.child("b"), 1, "too small"),
        ];
        let jobs = GroupKind::new("batch", "Job");
        for error in [
            StatusError::not_found(&pods, "a"),
            StatusError::invalid(&jobs, "a", causes.into_iter().collect::<FieldErrors>()),
            StatusError::too_many_requests("later", 7),
            StatusError::internal("oops"),
        ] {
            let client = Client::new(Arc::new(Refuses(error.clone())));
            let told = client.get("/api/v1/namespaces/a/pods/a").await.unwrap_err();
            assert_eq!(told.status(), error.status());
        }
    }
}
