//! Requests from inside the server: through admission, without a socket.

use std::net::Ipv6Addr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use kevel_api::status::{Status, StatusError};
use kevel_api::value::Value;
use kevel_codec::json;

use crate::handler::Handler;
use crate::request::{Connection, Request, RequestBody};
use crate::user::{ALL_AUTHENTICATED, PRIVILEGED, User};
use crate::version;

/// A controller's access to the API, under a name of its own.
#[derive(Clone)]
pub struct Client {
    server: Arc<dyn Handler>,
    user: Arc<User>,
    user_agent: HeaderValue,
    connection: Arc<Connection>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.user.name)
    }
}

impl Client {
    /// `server` is what stands behind the handler chain, or behind
    /// [what controllers pass](crate::chain::internal).
    pub fn new(server: Arc<dyn Handler>) -> Self {
        let user = User {
            name: "system:apiserver".into(),
            // Another after every start, as the reference has it.
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
        }
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> Result<Value, StatusError> {
        self.send(Method::GET, path, Bytes::new(), "").await
    }

    /// Creates an object.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, StatusError> {
        let mut body = Vec::new();
        json::encode_any(object, &mut body);
        self.send(Method::POST, path, body.into(), "application/json").await
    }

    /// Replaces an object.
    pub async fn update(&self, path: &str, object: &Value) -> Result<Value, StatusError> {
        let mut body = Vec::new();
        json::encode_any(object, &mut body);
        self.send(Method::PUT, path, body.into(), "application/json").await
    }

    /// Applies a configuration under a manager's name, whoever else owns what it sets.
    pub async fn apply(
        &self,
        path: &str,
        configuration: &Value,
        manager: &str,
    ) -> Result<Value, StatusError> {
        let mut body = Vec::new();
        json::encode_any(configuration, &mut body);
        let path = format!("{path}?force=true&fieldManager={manager}");
        self.send(Method::PATCH, &path, body.into(), "application/apply-patch+yaml").await
    }

    /// Deletes an object.
    pub async fn delete(&self, path: &str) -> Result<Value, StatusError> {
        self.send(Method::DELETE, path, Bytes::new(), "").await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        content_type: &str,
    ) -> Result<Value, StatusError> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::USER_AGENT, self.user_agent.clone())
            .body(())
            .map_err(StatusError::internal)?;
        let body = RequestBody::Bytes(body);
        let request = Request::new(request.into_parts().0, body, self.connection.clone());
        let mut request = request.ok_or_else(|| StatusError::internal("a path nobody can read"))?;
        request.user = Some(self.user.clone());
        let response = self.server.handle(request).await;
        let code = response.status();
        // A list comes in pieces.
        let body = response.into_body().collect().await;
        let body = body.map_err(StatusError::internal)?.to_bytes();
        let answer =
            json::decode_any(&body, json::Unknown::Ignore).map_err(StatusError::internal)?;
        if code.is_success() {
            return Ok(answer.value);
        }
        Err(failure(code, &answer.value))
    }
}

/// The failure that an answer tells of.
fn failure(code: StatusCode, answer: &Value) -> StatusError {
    let text = |field: &str| answer.str_at(&[field]).to_owned().into();
    StatusError::from(Status {
        status: text("status"),
        message: text("message"),
        reason: text("reason"),
        code: code.as_u16(),
        ..Status::default()
    })
}
