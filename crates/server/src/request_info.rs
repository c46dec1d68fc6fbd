//! What a request is about: verb, group, version, resource, namespace, name, from any form of path.

use http::{Method, Uri};

use crate::authorization::Selectors;

/// What a path and a method say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the path is that of a resource; the rest is only then filled in, `verb` and `path`
    /// excepted.
    pub is_resource: bool,
    pub path: String,
    /// `get`, `list`, `watch`, ...; for plain paths the method in lower case.
    pub verb: &'static str,
    /// `api` or `apis`.
    pub prefix: &'static str,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    /// What follows the name and subresource: a proxy's path.
    pub rest: Vec<String>,
    /// What a request for many objects is narrowed to.
    pub selectors: Selectors,
}

/// Subresources of namespaces: anything else behind one is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    pub fn new(method: &Method, uri: &Uri) -> Self {
        let path = uri.path();
        let plain = RequestInfo {
            path: path.to_owned(),
            verb: plain_verb(method),
            ..RequestInfo::default()
        };
        let mut parts = path.trim_matches('/').split('/').map(decode);
        let prefix = match parts.next().as_deref() {
            Some("api") => "api",
            Some("apis") => "apis",
            _ => return plain,
        };
        let mut info = RequestInfo { prefix, ..plain.clone() };
        if prefix == "apis" {
            // A group alone is a document about it, not a resource.
            match parts.next() {
                Some(group) if !group.is_empty() => info.group = group,
                _ => return plain,
            }
        }
        match parts.next() {
            Some(version) if !version.is_empty() => info.version = version,
            _ => return plain,
        }
        let mut rest: Vec<String> = parts.collect();
        if rest.first().is_none_or(String::is_empty) {
            return plain;
        }
        info.is_resource = true;
        info.verb = verb(method);
        let verb_in_path = matches!(rest[0].as_str(), "watch" | "proxy");
        if verb_in_path {
            // The verb may stand before the resource: an old form.
            if rest.len() < 2 {
                return plain;
            }
            info.verb = if rest.remove(0) == "watch" { "watch" } else { "proxy" };
        }
        info.locate(rest);
        info.refine(method, uri.query().unwrap_or_default());
        // The old form may be a request for one object, which heeds no selectors.
        if verb_in_path {
            info.selectors = Selectors::default();
        }
        info
    }

    /// Finds namespace, resource, name and subresource in what follows the version.
    fn locate(&mut self, mut parts: Vec<String>) {
        if parts[0] == "namespaces" {
            if let Some(namespace) = parts.get(1) {
                self.namespace = namespace.clone();
            }
            let inside =
                parts.get(2).is_some_and(|p| !NAMESPACE_SUBRESOURCES.contains(&p.as_str()));
            if inside {
                parts.drain(..2);
            }
        }
        let mut parts = parts.into_iter();
        self.resource = parts.next().unwrap_or_default();
        self.name = parts.next().unwrap_or_default();
        if self.verb != "proxy" {
            self.subresource = parts.next().unwrap_or_default();
        }
        self.rest = parts.collect();
    }

    /// Tells list, watch and deletecollection from get and delete.
    fn refine(&mut self, method: &Method, query: &str) {
        if self.name.is_empty() && self.verb == "get" {
            self.verb = "list";
        }
        let asked = crate::query::pairs(query);
        let value =
            |name: &str| asked.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        if self.verb == "list" && value("watch").is_some_and(truthy) {
            self.verb = "watch";
        }
        if matches!(self.verb, "list" | "watch") && self.name.is_empty() {
            // A selector for one name is a request for that name, as far as permission goes.
            let selector = value("fieldSelector")
                .and_then(|s| s.parse::<kevel_api::selector::field::FieldSelector>().ok());
            if let Some(name) =
                selector.as_ref().and_then(|s| s.requires_exact_match("metadata.name"))
            {
                let valid =
                    !name.is_empty() && !name.contains(['/', '%']) && !matches!(name, "." | "..");
                if valid {
                    self.name = name.to_owned();
                }
            }
        }
        if self.name.is_empty() && method == Method::DELETE {
            self.verb = "deletecollection";
        }
        if matches!(self.verb, "list" | "watch" | "deletecollection") {
            let text = |name: &str| value(name).unwrap_or_default();
            self.selectors = Selectors::parse(text("fieldSelector"), text("labelSelector"));
        }
    }
}

/// Go's reading of a boolean parameter: empty counts as set.
pub fn truthy(value: &str) -> bool {
    !matches!(value, "0" | "false" | "False" | "FALSE" | "f" | "F")
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

fn plain_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "",
    }
}

fn decode(part: &str) -> String {
    crate::query::percent_decode(part, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// verb, prefix, group, version, namespace, resource, subresource, name
    fn told(method: &str, uri: &str) -> String {
        let info = RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap());
        if !info.is_resource {
            return format!("{} plain", info.verb);
        }
        [
            info.verb,
            info.prefix,
            &info.group,
            &info.version,
            &info.namespace,
            &info.resource,
            &info.subresource,
            &info.name,
        ]
        .join("|")
    }

    #[test]
    fn every_form_of_path_is_understood() {
        for (method, uri, expected) in [
            ("GET", "/", "get plain"),
            ("GET", "/api", "get plain"),
            ("GET", "/api/v1", "get plain"),
            ("GET", "/apis/apps", "get plain"),
            ("GET", "/apis/apps/v1/", "get plain"),
            ("GET", "/healthz", "get plain"),
            ("GET", "/api/v1/namespaces", "list|api||v1||namespaces||"),
            ("GET", "/api/v1/namespaces/a", "get|api||v1|a|namespaces||a"),
            ("PUT", "/api/v1/namespaces/a/status", "update|api||v1|a|namespaces|status|a"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update|api||v1|a|namespaces|finalize|a"),
            ("GET", "/api/v1/namespaces/a/pods", "list|api||v1|a|pods||"),
            ("GET", "/api/v1/namespaces/a/pods?watch=true", "watch|api||v1|a|pods||"),
            ("GET", "/api/v1/namespaces/a/pods?watch=false", "list|api||v1|a|pods||"),
            ("GET", "/api/v1/watch/namespaces/a/pods", "watch|api||v1|a|pods||"),
            ("GET", "/api/v1/watch/pods", "watch|api||v1||pods||"),
            ("POST", "/api/v1/namespaces/a/pods", "create|api||v1|a|pods||"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection|api||v1|a|pods||"),
            ("DELETE", "/api/v1/namespaces/a/pods/b", "delete|api||v1|a|pods||b"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "patch|apis|apps|v1|a|deployments|scale|b",
            ),
            (
                "GET",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
                "get|apis|rbac.authorization.k8s.io|v1||clusterroles||system:node",
            ),
            (
                "GET",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "get|apis|rbac.authorization.k8s.io|v1||clusterroles||system:node",
            ),
            ("GET", "/api/v1/nodes?fieldSelector=metadata.name%3Dn1", "list|api||v1||nodes||n1"),
            ("GET", "/api/v1/namespaces/a/services/b/proxy/x/y", "get|api||v1|a|services|proxy|b"),
        ] {
            assert_eq!(told(method, uri), expected, "{method} {uri}");
        }
    }

    #[test]
    fn selectors_are_those_of_requests_for_many() {
        for (method, uri, fields, labels) in [
            ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Da&labelSelector=b,!c", 1, 2),
            ("GET", "/api/v1/pods?watch=1&fieldSelector=a%3Db,c!%3Dd", 2, 0),
            ("DELETE", "/api/v1/namespaces/n/pods?labelSelector=b", 0, 1),
            // One object, and the old form of watching.
            ("GET", "/api/v1/namespaces/n/pods/p?labelSelector=b", 0, 0),
            ("GET", "/api/v1/watch/pods?labelSelector=b", 0, 0),
            // What cannot be read narrows nothing; of several the first counts.
            ("GET", "/api/v1/pods?fieldSelector=x&labelSelector=%3D", 0, 0),
            ("GET", "/api/v1/pods?labelSelector=a&labelSelector=b,c", 0, 1),
        ] {
            let info = RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap());
            let found = (info.selectors.fields.len(), info.selectors.labels.len());
            assert_eq!(found, (fields, labels), "{method} {uri}");
        }
    }
}
