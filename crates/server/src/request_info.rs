//! RequestInfo: verb, group, version, resource, namespace and name of a request.
//!
//! Path and query are parsed here, once, as the reference does. Authorizers, routers, endpoints and the proxy to
//! aggregated servers all use this result, so that the served request is the authorized one.

use http::{Method, Uri};

use kevel_registry::list_options::{ListOptions, watch};
use kevel_registry::query;
use kevel_registry::selectors::Selectors;
use kevel_registry::verb::Verb;

/// Facts of a request's path, query and method (upstream: `RequestInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the path is that of a resource; if not, only `verb`, `path` and `query` are set.
    pub is_resource: bool,
    /// Path, percent-decoded.
    pub path: String,
    /// `get`, `list`, `watch`, ...; for plain paths the method in lower case.
    pub verb: Verb,
    /// `api` or `apis`.
    pub prefix: &'static str,
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty for cluster-scoped and cross-namespace requests.
    pub namespace: String,
    /// Resource, in the plural.
    pub resource: String,
    /// Subresource; empty if none.
    pub subresource: String,
    /// Path below the subresource, without slashes at its ends.
    pub subpath: String,
    /// Name of the object; empty for a collection.
    pub name: String,
    /// Depth of the path below the resource.
    pub depth: Depth,
    /// Whether the path names a namespace before the resource: `namespaces/a/pods`, but not `namespaces/a`.
    pub in_namespace: bool,
    /// Whether the verb is in the path (`watch/pods`), a deprecated form.
    pub verb_in_path: bool,
    /// Decoded query parameters, in order.
    pub query: Vec<(String, String)>,
    /// ListOptions of a list, watch or deletecollection, or their error.
    pub list_options: Option<Result<ListOptions, String>>,
    /// Selectors for authorization.
    pub selectors: Selectors,
    /// Error of an invalid path.
    pub error: Option<String>,
}

/// Depth of a path below a resource. Each segment may be empty: `pods//log`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Collection of a resource.
    #[default]
    Collection,
    /// One object.
    Object,
    /// Subresource of an object.
    Subresource,
    /// Path below a subresource.
    Below,
}

/// Subresources of namespaces; any other segment after a namespace's name is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Parses a request; `None` for an invalid `%` escape in its path.
    pub fn new(method: &Method, uri: &Uri) -> Option<Self> {
        let path = query::unescape(uri.path(), false)?;
        let query = query::pairs(uri.query().unwrap_or_default());
        let plain = RequestInfo { verb: plain_verb(method), query, ..RequestInfo::default() };
        let mut parts = path.trim_matches('/').split('/').map(str::to_owned);
        let prefix = match parts.next().as_deref() {
            Some("api") => "api",
            Some("apis") => "apis",
            _ => return Some(RequestInfo { path, ..plain }),
        };
        let group = if prefix == "apis" { parts.next() } else { Some(String::new()) };
        let version = parts.next();
        let rest: Vec<String> = parts.collect();
        // Paths of groups and versions alone are discovery documents, not resources.
        let (Some(group), Some(version), false) = (group, version, rest.is_empty()) else {
            return Some(RequestInfo { path, ..plain });
        };
        let mut info = RequestInfo { is_resource: true, path, prefix, group, version, ..plain };
        info.verb = verb(method);
        info.locate(rest, uri);
        info.refine();
        Some(info)
    }

    /// Group, version and resource that serve the request, if its path can be a resource's: it must begin with a single
    /// slash.
    pub fn served_by(&self) -> Option<(&str, &str, &str)> {
        let begins = self.path.strip_prefix('/').is_some_and(|path| path.starts_with(self.prefix));
        let found = (self.group.as_str(), self.version.as_str(), self.resource.as_str());
        (self.is_resource && begins).then_some(found)
    }

    /// Path below the subresource, with the slashes at its ends as in the request.
    pub fn path_below(&self) -> String {
        let lead = if self.subpath.is_empty() || self.subpath.starts_with('/') { "" } else { "/" };
        let mut path = format!("{lead}{}", self.subpath);
        if self.path.ends_with('/') && !path.ends_with('/') {
            path.push('/');
        }
        path
    }

    /// Parses namespace, resource, name and subresource from the segments after the version.
    fn locate(&mut self, mut parts: Vec<String>, uri: &Uri) {
        self.verb_in_path = matches!(parts[0].as_str(), "watch" | "proxy");
        if self.verb_in_path {
            self.verb = if parts.remove(0) == "watch" { Verb::Watch } else { Verb::Proxy };
        }
        let Some(first) = parts.first() else {
            let asked = uri.path_and_query().map_or("", |asked| asked.as_str());
            let error = format!("unable to determine kind and namespace from url, {asked}");
            self.error = Some(error);
            return;
        };
        if first == "namespaces" {
            self.namespace = parts.get(1).cloned().unwrap_or_default();
            let within = |part: &String| !NAMESPACE_SUBRESOURCES.contains(&part.as_str());
            self.in_namespace = parts.get(2).is_some_and(within);
            if self.in_namespace {
                parts.drain(..2);
            }
        }
        self.depth = match parts.len() {
            1 => Depth::Collection,
            2 => Depth::Object,
            3 => Depth::Subresource,
            _ => Depth::Below,
        };
        let mut parts = parts.into_iter();
        self.resource = parts.next().unwrap_or_default();
        self.name = parts.next().unwrap_or_default();
        if self.verb != Verb::Proxy {
            self.subresource = parts.next().unwrap_or_default();
            self.subpath = parts.collect::<Vec<_>>().join("/");
        }
    }

    /// Distinguishes list, watch and deletecollection from get and delete.
    fn refine(&mut self) {
        match (self.verb, self.name.is_empty()) {
            (Verb::Get, true) => {
                self.verb = if watch(&self.query) { Verb::Watch } else { Verb::List };
                self.read_list_options();
                // A selector for one name is authorized as a request for that name.
                if let Some(Ok(options)) = &self.list_options
                    && let Some(name) = options.fields.requires_exact_match("metadata.name")
                    && is_path_segment(name)
                {
                    self.name = name.to_owned();
                }
            }
            (Verb::Delete, true) => {
                self.verb = Verb::DeleteCollection;
                self.read_list_options();
            }
            (Verb::Watch, _) => self.read_list_options(),
            _ => {}
        }
        // The deprecated watch path may name one object, for which selectors are ignored.
        if self.list_options.is_some() && !self.verb_in_path {
            self.selectors = match &self.list_options {
                Some(Ok(options)) => Selectors::new(&options.fields, &options.labels),
                _ => {
                    let text = |name| query::first(&self.query, name).unwrap_or_default();
                    Selectors::parse(text("fieldSelector"), text("labelSelector"))
                }
            };
        }
    }

    fn read_list_options(&mut self) {
        self.list_options = Some(ListOptions::decode(&self.query));
    }
}

/// Whether an object of this name can be requested by path.
fn is_path_segment(name: &str) -> bool {
    !name.contains(['/', '%']) && !matches!(name, "." | "..")
}

fn verb(method: &Method) -> Verb {
    match *method {
        Method::POST => Verb::Create,
        Method::GET | Method::HEAD => Verb::Get,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Unknown,
    }
}

fn plain_verb(method: &Method) -> Verb {
    match *method {
        Method::GET => Verb::Get,
        Method::HEAD => Verb::Head,
        Method::POST => Verb::Post,
        Method::PUT => Verb::Put,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        Method::OPTIONS => Verb::Options,
        Method::CONNECT => Verb::Connect,
        Method::TRACE => Verb::Trace,
        _ => Verb::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, uri: &str) -> RequestInfo {
        RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap()).expect(uri)
    }

    /// Formats verb, prefix, group, version, namespace, resource, subresource and name.
    fn told(method: &str, uri: &str) -> String {
        let info = read(method, uri);
        if !info.is_resource {
            return format!("{} plain", info.verb);
        }
        [
            info.verb.as_str(),
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
            (
                "GET",
                "/api/v1/nodes?watch&fieldSelector=metadata.name==n1",
                "watch|api||v1||nodes||n1",
            ),
            // A name that no path can have, the deprecated form, and an invalid selector.
            ("GET", "/api/v1/nodes?fieldSelector=metadata.name%3D..", "list|api||v1||nodes||"),
            (
                "GET",
                "/api/v1/watch/nodes?fieldSelector=metadata.name%3Dn",
                "watch|api||v1||nodes||",
            ),
            (
                "GET",
                "/api/v1/nodes?limit=x&fieldSelector=metadata.name%3Dn",
                "list|api||v1||nodes||",
            ),
            (
                "DELETE",
                "/api/v1/nodes?fieldSelector=metadata.name%3Dn",
                "deletecollection|api||v1||nodes||",
            ),
            ("GET", "/api/v1/namespaces/a/services/b/proxy/x/y", "get|api||v1|a|services|proxy|b"),
            // Slashes count, except at the ends, and so do encoded ones.
            ("GET", "//api/v1/pods//", "list|api||v1||pods||"),
            ("GET", "/api//v1/pods", "get|api||||v1||pods"),
            ("GET", "/api/v1//pods", "get|api||v1||||pods"),
            ("GET", "/apis/a//b/c", "get|apis|a|||b||c"),
            ("GET", "/apis/a/v1//namespaces/n/things", "get|apis|a|v1|||n|namespaces"),
            ("GET", "/api/v1/namespaces//pods/p", "get|api||v1||pods||p"),
            ("GET", "/api/v1/namespaces/a/pods//log", "list|api||v1|a|pods|log|"),
            ("GET", "/api/v1/namespaces/a%2Fpods/b", "get|api||v1|a|pods||b"),
            ("GET", "/%61pi/v1/namespaces/a/pods/%2e%2e", "get|api||v1|a|pods||.."),
            ("POST", "/api/v1/watch/pods", "watch|api||v1||pods||"),
            ("FOO", "/api/v1/pods", "|api||v1||pods||"),
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
            // A single object, and the deprecated watch path.
            ("GET", "/api/v1/namespaces/n/pods/p?labelSelector=b", 0, 0),
            ("GET", "/api/v1/watch/pods?labelSelector=b", 0, 0),
            // Invalid selectors are ignored; the first of several counts.
            ("GET", "/api/v1/pods?fieldSelector=x&labelSelector=%3D", 0, 0),
            ("GET", "/api/v1/pods?labelSelector=a&labelSelector=b,c", 0, 1),
        ] {
            let info = read(method, uri);
            let found = (info.selectors.fields.len(), info.selectors.labels.len());
            assert_eq!(found, (fields, labels), "{method} {uri}");
        }
    }

    #[test]
    fn what_is_served_stands_where_it_is_installed() {
        assert_eq!(read("GET", "/api/v1/pods").served_by(), Some(("", "v1", "pods")));
        assert_eq!(read("GET", "/apis/a/v1/b/").served_by(), Some(("a", "v1", "b")));
        assert_eq!(read("GET", "//api/v1/pods").served_by(), None);
        assert_eq!(read("GET", "/apis/a/v1").served_by(), None);
    }

    #[test]
    fn what_is_below_a_subresource_is_a_path() {
        for (uri, expected) in [
            ("/api/v1/namespaces/a/pods/b/proxy", ""),
            ("/api/v1/namespaces/a/pods/b/proxy/", "/"),
            ("/api/v1/nodes/b/proxy/x/y", "/x/y"),
            ("/api/v1/nodes/b/proxy/x%2fy/", "/x/y/"),
            ("/api/v1/nodes/b/proxy//x", "/x"),
            ("/api/v1/nodes/b/proxy/a/../b", "/a/../b"),
        ] {
            assert_eq!(read("GET", uri).path_below(), expected, "{uri}");
        }
    }

    #[test]
    fn not_every_path_can_be_read() {
        for path in ["/%", "/api/v1/pods/%zz", "/healthz/%4"] {
            assert_eq!(RequestInfo::new(&Method::GET, &path.parse().unwrap()), None, "{path}");
        }
        let error = "unable to determine kind and namespace from url, /api/v1/watch?x";
        assert_eq!(read("GET", "/api/v1/watch?x").error.as_deref(), Some(error));
        assert!(read("GET", "/apis/a/v1/proxy/").error.is_some());
    }
}
