//! The chain of servers (upstream: `DelegationTarget`): each serves its own paths and passes on the rest.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use kevel_api::status::StatusError;

use crate::body::Body;
use crate::chain::MuxAndDiscoveryIncomplete;
use crate::endpoints::{Endpoints, in_scope};
use crate::handler::{Handler, Response};
use crate::request::Request;
use crate::responses::failure_to;
use kevel_component::future::Pending;
use kevel_registry::failure::unserved;
use kevel_registry::resource::Resources;

/// A handler of a plain path: an exact one, or all below a path that ends with a slash.
pub struct Path {
    /// The path; with a trailing `/`, all paths below it.
    pub path: String,
    /// Handler of the path.
    pub handler: Arc<dyn Handler>,
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Path({})", self.path)
    }
}

/// A server of the chain (upstream: `DelegationTarget`, `GenericAPIServer`): resources, plain paths, and the next
/// server.
pub struct Delegate {
    /// Name in messages.
    pub name: &'static str,
    /// Resources that the server currently serves.
    pub resources: Arc<Resources>,
    /// Whether the server alone serves its groups: it then refuses their unknown resources instead of passing them on.
    /// Not so for custom resources, which come and go one by one.
    pub owns_groups: bool,
    /// REST handlers, shared by all servers of the chain.
    pub endpoints: Arc<Endpoints>,
    /// Plain paths.
    pub paths: Vec<Path>,
    /// Next server, for all other requests.
    pub next: Option<Arc<dyn Handler>>,
}

impl std::fmt::Debug for Delegate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delegate").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Delegate {
    fn path(&self, path: &str) -> Option<&Arc<dyn Handler>> {
        let exact = self.paths.iter().find(|entry| entry.path == path);
        let below = || {
            let prefixes = self.paths.iter().filter(|entry| {
                entry.path.len() > 1 && entry.path.ends_with('/') && path.starts_with(&entry.path)
            });
            prefixes.max_by_key(|entry| entry.path.len())
        };
        exact.or_else(below).map(|entry| &entry.handler)
    }
}

impl Handler for Delegate {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        Box::pin(async move {
            let info = &request.info;
            if let Some(handler) = self.path(&info.path).filter(|_| !info.is_resource) {
                return handler.handle(request).await;
            }
            let (known, row) = {
                let rows = self.resources.current();
                let group = group_of(&info.path);
                let known = rows.groups().iter().any(|(served, _)| Some(served.as_str()) == group);
                let row = info.served_by().and_then(|(group, version, resource)| {
                    rows.get(group, version, resource).filter(|row| in_scope(row, info)).cloned()
                });
                (known && self.owns_groups, row)
            };
            if let Some(resource) = row {
                return self.endpoints.serve(&self.resources, &resource, request).await;
            }
            if known {
                return failure_to(&request, unserved());
            }
            match &self.next {
                Some(next) => next.handle(request).await,
                None => not_found(&request),
            }
        })
    }
}

/// Group of a path below `/apis/`; empty for the core group below `/api/`.
fn group_of(path: &str) -> Option<&str> {
    match path.strip_prefix("/apis/") {
        Some(rest) => rest.split_once('/').map(|(group, _)| group).filter(|g| !g.is_empty()),
        None => path.strip_prefix("/api/").map(|_| ""),
    }
}

/// Response at the end of the chain: 404, or 503 while paths are still being installed.
pub fn not_found(request: &Request) -> Response {
    if request.parts.extensions.get::<MuxAndDiscoveryIncomplete>().is_some() {
        return failure_to(request, too_early());
    }
    let mut response = http::Response::new(Body::from("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn too_early() -> StatusError {
    let mut status = StatusError::service_unavailable(
        "the request has been made before all known HTTP paths have been installed, please try again",
    )
    .into_status();
    status.details.get_or_insert_default().retry_after_seconds = 5;
    StatusError::from(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestBody;

    #[test]
    fn unknown_paths_get_503_until_all_paths_are_installed() {
        let answer = |early: bool| {
            let mut parts = http::Request::get("/apis/x").body(()).unwrap().into_parts().0;
            if early {
                parts.extensions.insert(MuxAndDiscoveryIncomplete);
            }
            let body = RequestBody::Bytes(bytes::Bytes::new());
            let request = Request::new(parts, body, Arc::default()).unwrap();
            let response = not_found(&request);
            let retry = response.headers().get(header::RETRY_AFTER);
            (response.status().as_u16(), retry.map(|value| value.to_str().unwrap().to_owned()))
        };
        assert_eq!(answer(true), (503, Some("5".to_owned())));
        assert_eq!(answer(false), (404, None));
    }
}
