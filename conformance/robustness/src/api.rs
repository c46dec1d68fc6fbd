//! API client of the suite: connections, requests, and recorded answers.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::Full;
use kevel_test_support::wire::{self, Client, Version as HttpVersion, read};
use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::history::{At, Outcome, Request, Version};
use crate::traffic::is_selected;

/// Namespace of all objects of a run.
pub const NAMESPACE: &str = "robust";
/// Path of its ConfigMaps.
pub const MAPS: &str = "/api/v1/namespaces/robust/configmaps";
/// Time limit of an answer: longer than the server is ever stopped for.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// ConfigMap that the server itself keeps in every namespace, and that the suite does not write.
pub const NOT_OURS: &str = "kube-root-ca.crt";
/// Limit on the pages of a list.
const MAX_PAGES: usize = 100;

/// Address and credentials of the server.
#[derive(Debug, Clone)]
pub struct Target {
    /// Local port.
    pub port: u16,
    /// TLS configuration of the administrator.
    pub tls: ClientConfig,
}

impl Target {
    /// Opens a connection; `None` if the server is not reachable.
    pub async fn connect(&self, version: HttpVersion) -> Option<Client> {
        let connecting = Client::connect(self.port, &self.tls, version);
        tokio::time::timeout(PATIENCE, connecting).await.ok()?.ok()
    }
}

/// An answer: its code and its JSON body.
pub type Answer = Result<(StatusCode, Value), String>;

/// Sends a request and reads the answer. After an error, the effect of the request is unknown.
pub async fn ask(client: &mut Client, request: http::Request<Full<Bytes>>) -> Answer {
    let whole = async {
        let response = client.send(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = read(response).await.map_err(|error| error.to_string())?;
        let body = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        Ok((status, body))
    };
    match tokio::time::timeout(PATIENCE, whole).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}

/// Creates the namespace. Fails if the server does not allow it in time.
pub async fn make_namespace(target: &Target) -> Result<(), String> {
    let mut client = target.connect(HttpVersion::Http1).await.ok_or("no server answers")?;
    let body = json!({"metadata": {"name": NAMESPACE}}).to_string();
    let (status, body) =
        ask(&mut client, wire::request(Method::POST, "/api/v1/namespaces", body)).await?;
    match status.as_u16() {
        201 | 409 => Ok(()),
        _ => Err(format!("cannot create the namespace: {body}")),
    }
}

/// Performs a request and returns its outcome.
pub async fn perform(client: &mut Client, request: &Request) -> Outcome {
    if let Request::List { at, limit } = request {
        return list(client, *at, *limit, "").await.unwrap_or_else(|refusal| refusal);
    }
    match ask(client, encode(request)).await {
        Ok((status, body)) => outcome(request, status, &body),
        Err(why) => Outcome::Unknown(why),
    }
}

fn encode(request: &Request) -> http::Request<Full<Bytes>> {
    let path = format!("{MAPS}/{}", request.key().unwrap_or_default());
    match request {
        Request::Create { key, value } => {
            wire::request(Method::POST, MAPS, object(key, value, None).to_string())
        }
        Request::Update { key, value, expected } => {
            wire::request(Method::PUT, &path, object(key, value, *expected).to_string())
        }
        Request::Patch { key, value } => {
            let body = object(key, value, None).to_string();
            let mut request = wire::request(Method::PATCH, &path, body);
            let merge = http::HeaderValue::from_static("application/merge-patch+json");
            request.headers_mut().insert(http::header::CONTENT_TYPE, merge);
            request
        }
        Request::Delete { revision, uid, .. } => {
            let mut preconditions = json!({});
            if let Some(revision) = revision {
                preconditions["resourceVersion"] = json!(revision.to_string());
            }
            if let Some(uid) = uid {
                preconditions["uid"] = json!(uid);
            }
            let body = json!({
                "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions
            });
            wire::request(Method::DELETE, &path, body.to_string())
        }
        Request::Get { at, .. } => {
            wire::request(Method::GET, &format!("{path}?{}", query(*at)), "")
        }
        Request::List { at, .. } => {
            wire::request(Method::GET, &format!("{MAPS}?{}", query(*at)), "")
        }
    }
}

/// ConfigMap with a value, and with the label that the value implies.
fn object(key: &str, value: &str, expected: Option<u64>) -> Value {
    let label = if is_selected(value) { "in" } else { "out" };
    let mut object = json!({
        "metadata": {"name": key, "labels": {"selected": label}},
        "data": {"value": value},
    });
    if let Some(revision) = expected {
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
    }
    object
}

fn query(at: At) -> String {
    match at {
        At::Consistent => String::new(),
        At::Any => "resourceVersion=0".to_owned(),
        At::NotOlderThan(revision) => {
            format!("resourceVersion={revision}&resourceVersionMatch=NotOlderThan")
        }
        At::Exact(revision) => format!("resourceVersion={revision}&resourceVersionMatch=Exact"),
    }
}

fn outcome(request: &Request, status: StatusCode, body: &Value) -> Outcome {
    let says = || format!("{status} {}", body["message"].as_str().unwrap_or_default());
    match (status.as_u16(), body["reason"].as_str()) {
        (200 | 201, _) if matches!(request, Request::Delete { .. }) => Outcome::Deleted,
        (200 | 201, _) => match version(body) {
            Some((_, version)) => Outcome::Object(version),
            None => Outcome::Broken(format!("an answer that is no object: {body}")),
        },
        (404, _) => Outcome::NotFound,
        (409, Some("AlreadyExists")) => Outcome::Exists,
        (409, _) => Outcome::Conflict,
        (410, _) => Outcome::Gone,
        // A read has no effect, whatever its outcome.
        (500.., _) if request.is_write() => Outcome::Unknown(says()),
        _ => Outcome::Refused(says()),
    }
}

/// All pages of a list. The error is the outcome of a refused page.
pub async fn list(
    client: &mut Client,
    at: At,
    limit: Option<u64>,
    selector: &str,
) -> Result<Outcome, Outcome> {
    let base =
        format!("{MAPS}?{selector}{}", limit.map(|n| format!("&limit={n}")).unwrap_or_default());
    let mut path = format!("{base}&{}", query(at));
    let mut all = Vec::new();
    let mut first: Option<u64> = None;
    for page in 1..=MAX_PAGES {
        let request = wire::request(Method::GET, &path, "");
        let (status, body) = ask(client, request).await.map_err(Outcome::Unknown)?;
        match status.as_u16() {
            200 => {}
            410 => return Err(Outcome::Gone),
            _ => return Err(Outcome::Refused(format!("{status} {}", body["message"]))),
        }
        let meta = &body["metadata"];
        let no_list = || Outcome::Broken(format!("an answer that is no list: {body}"));
        let revision = number(&meta["resourceVersion"]).ok_or_else(no_list)?;
        if first.is_some_and(|first| first != revision) {
            return Err(Outcome::Broken(format!("pages at {first:?} and {revision}")));
        }
        first = Some(revision);
        let items = body["items"].as_array().into_iter().flatten();
        for item in items.filter(|item| item["metadata"]["name"] != NOT_OURS) {
            all.push(version(item).ok_or_else(no_list)?);
        }
        match meta["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => path = format!("{base}&continue={token}"),
            None => return Ok(Outcome::List { revision, items: all, pages: page }),
        }
    }
    Err(Outcome::Broken("a list without end".to_owned()))
}

/// Name of an object, and its recorded version.
pub fn version(object: &Value) -> Option<(String, Version)> {
    let meta = &object["metadata"];
    let version = Version {
        value: object["data"]["value"].as_str()?.to_owned(),
        uid: meta["uid"].as_str()?.to_owned(),
        revision: number(&meta["resourceVersion"])?,
        selected: meta["labels"]["selected"] == "in",
    };
    Some((meta["name"].as_str()?.to_owned(), version))
}

/// Number in a string, such as a resourceVersion.
pub fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}
