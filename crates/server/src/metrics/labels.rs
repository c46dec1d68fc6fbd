//! Labels of requests in metrics and logs: a limited set, whatever clients send.

use http::request::Parts;
use http::{HeaderValue, Method, header};

use crate::request_info::RequestInfo;
use kevel_registry::verb::Verb;

/// Connect subresources.
const CONNECT: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];

/// Label of an unknown method.
const OTHER: &str = "other";

/// `resource`, `namespace` or `cluster`; empty for a plain path.
pub fn scope(info: &RequestInfo) -> &'static str {
    let collection = matches!(info.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
    match info {
        info if !info.is_resource => "",
        info if !collection && (!info.name.is_empty() || info.verb == Verb::Create) => "resource",
        info if !info.namespace.is_empty() => "namespace",
        _ => "cluster",
    }
}

/// `GET`, `LIST`, `WATCH`, `APPLY`, `CONNECT`, ...
pub fn verb(info: &RequestInfo, parts: &Parts) -> &'static str {
    if info.is_resource && CONNECT.contains(&info.subresource.as_str()) {
        return "CONNECT";
    }
    match parts.method {
        Method::GET | Method::HEAD if info.verb == Verb::Watch => "WATCH",
        Method::GET | Method::HEAD => match scope(info) {
            "" | "resource" => "GET",
            _ => "LIST",
        },
        Method::PATCH if parts.headers.get(header::CONTENT_TYPE).is_some_and(is_apply) => "APPLY",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => OTHER,
    }
}

/// `All` or empty; `invalid` for any other value.
pub fn dry_run(info: &RequestInfo) -> &'static str {
    let mut values = info.query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| value);
    match values.next() {
        None => "",
        Some(value) if value == "All" && values.all(|value| value == "All") => "All",
        Some(_) => "invalid",
    }
}

/// `fieldValidation` of a write: `Ignore`, `Warn`, `Strict` or empty; `invalid` for any other value; `None` for reads.
pub fn field_validation(info: &RequestInfo) -> Option<&'static str> {
    if !matches!(info.verb, Verb::Create | Verb::Update | Verb::Patch) {
        return None;
    }
    let mut values = info.query.iter().filter(|(key, _)| key == "fieldValidation");
    let first = values.next().map(|(_, value)| value.as_str());
    Some(match (first, values.next()) {
        (None, _) => "",
        (Some("" | "Ignore"), None) => "Ignore",
        (Some("Warn"), None) => "Warn",
        (Some("Strict"), None) => "Strict",
        _ => "invalid",
    })
}

/// Whether a patch of this media type is an apply.
fn is_apply(content_type: &HeaderValue) -> bool {
    content_type == "application/apply-patch+yaml"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_few_names() {
        for (method, uri, content_type, expected) in [
            ("GET", "/healthz", "", ("GET", "", "")),
            ("GET", "/api/v1/namespaces/a/pods/b", "", ("GET", "resource", "")),
            ("HEAD", "/api/v1/namespaces/a/pods", "", ("LIST", "namespace", "")),
            ("GET", "/api/v1/pods?watch=1", "", ("WATCH", "cluster", "")),
            ("GET", "/api/v1/nodes?fieldSelector=metadata.name%3Da", "", ("LIST", "cluster", "")),
            ("GET", "/api/v1/namespaces/a/pods/b/log", "", ("CONNECT", "resource", "")),
            ("POST", "/api/v1/namespaces/a/pods?dryRun=All", "", ("POST", "resource", "All")),
            (
                "PATCH",
                "/api/v1/nodes/a?dryRun=x",
                "application/json",
                ("PATCH", "resource", "invalid"),
            ),
            ("PATCH", "/api/v1/nodes/a", "application/apply-patch+yaml", ("APPLY", "resource", "")),
            ("DELETE", "/api/v1/namespaces/a/pods", "", ("DELETE", "namespace", "")),
            ("BREW", "/api/v1/pods", "", ("other", "cluster", "")),
        ] {
            let request = http::Request::builder()
                .method(method)
                .uri(uri)
                .header(header::CONTENT_TYPE, content_type)
                .body(())
                .unwrap();
            let (parts, ()) = request.into_parts();
            let info = RequestInfo::new(&parts.method, &parts.uri).unwrap();
            let found = (verb(&info, &parts), scope(&info), dry_run(&info));
            assert_eq!(found, expected, "{method} {uri}");
        }
    }
}
