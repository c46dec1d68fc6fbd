//! Routing by method and path. A route whose verb is not the authorized one does not match.

use http::Method;
use kevel_api::status::StatusError;

use crate::connecter::{ConnectHandler, Connecter};
use crate::request_info::{Depth, RequestInfo};
use kevel_registry::failure::{bare, unserved};
use kevel_registry::resource::{Resource, Routing, Subresource};
use kevel_registry::verb::Verb;

/// HTTP methods and the verbs that they mean.
type Routes = &'static [(Method, Verb)];

const COLLECTION: Routes = &[
    (Method::GET, Verb::List),
    (Method::POST, Verb::Create),
    (Method::DELETE, Verb::DeleteCollection),
];
/// Collections across all namespaces support only list and watch.
const ALL_NAMESPACES: Routes = &[(Method::GET, Verb::List)];
const OBJECT: Routes = &[
    (Method::GET, Verb::Get),
    (Method::PUT, Verb::Update),
    (Method::PATCH, Verb::Patch),
    (Method::DELETE, Verb::Delete),
];
const SUBRESOURCE: Routes = &[
    (Method::GET, Verb::Get),
    (Method::POST, Verb::Create),
    (Method::PUT, Verb::Update),
    (Method::PATCH, Verb::Patch),
    (Method::DELETE, Verb::Delete),
];
const WATCH: Routes = &[(Method::GET, Verb::Watch)];

/// The subresource that a path names, if it names one.
pub(super) fn subresource<'r>(
    resource: &'r Resource,
    info: &RequestInfo,
) -> Result<Option<&'r Subresource>, StatusError> {
    let missing = || match resource.conventions.routing {
        Routing::Routes => unserved(),
        Routing::Verbs => StatusError::not_found(&resource.group_resource(), &info.name),
    };
    match info.subresource.as_str() {
        "" => Ok(None),
        name => resource.subresources.get(name).map(Some).ok_or_else(missing),
    }
}

/// Checks that a route exists.
pub(super) fn check(
    resource: &Resource,
    info: &RequestInfo,
    method: &Method,
    subresource: Option<&Subresource>,
    handler: Option<&ConnectHandler>,
) -> Result<(), StatusError> {
    if let Some(ConnectHandler::Connecter(connecter)) = handler {
        return check_connect(resource, &**connecter, info, method);
    }
    let allows = |verb: Verb| match subresource {
        None => resource.allows(verb),
        Some(sub) => sub.verbs.contains(&verb),
    };
    match resource.conventions.routing {
        Routing::Routes => check_routes(resource, info, method, allows),
        Routing::Verbs => check_verb(resource, info, allows),
    }
}

/// Whether the path's scope (namespaced or not) fits the resource. With `Routing::Routes` all paths are handled here
/// and refused later; with `Routing::Verbs` others go to the next server in the chain.
pub(crate) fn in_scope(resource: &Resource, info: &RequestInfo) -> bool {
    let across = matches!(info.verb, Verb::List | Verb::Watch);
    match (resource.conventions.routing, resource.namespaced, info.namespace.is_empty()) {
        (Routing::Routes, _, _) => true,
        (Routing::Verbs, true, true) => across,
        (Routing::Verbs, namespaced, everywhere) => namespaced != everywhere,
    }
}

/// Checks the method and form of path as the reference's go-restful routes do.
fn check_routes(
    resource: &Resource,
    info: &RequestInfo,
    method: &Method,
    allows: impl Fn(Verb) -> bool,
) -> Result<(), StatusError> {
    if info.in_namespace && !resource.namespaced {
        return Err(unserved());
    }
    let all_namespaces = resource.namespaced && !info.in_namespace;
    let routes = match (info.depth, info.verb_in_path) {
        (Depth::Collection, true) if info.verb == Verb::Watch => WATCH,
        (Depth::Object, true) if info.verb == Verb::Watch && !all_namespaces => WATCH,
        (Depth::Collection, false) if all_namespaces => ALL_NAMESPACES,
        (Depth::Collection, false) => COLLECTION,
        (Depth::Object, false) if !all_namespaces => OBJECT,
        (Depth::Subresource, false) if !all_namespaces => SUBRESOURCE,
        _ => return Err(unserved()),
    };
    let mut routes = routes.iter().filter(|(_, verb)| allows(*verb)).peekable();
    if routes.peek().is_none() {
        return Err(unserved());
    }
    let (_, verb) = routes.find(|(known, _)| known == method).ok_or_else(|| bare(405))?;
    let below = info.depth != Depth::Collection;
    match *verb {
        // An empty name was authorized as another verb.
        _ if below && info.name.is_empty() => Err(name_required()),
        Verb::List if info.verb == Verb::Watch && !allows(Verb::Watch) => {
            Err(StatusError::method_not_supported(&resource.group_resource(), Verb::Watch.as_str()))
        }
        Verb::List if info.verb == Verb::Watch => Ok(()),
        verb if verb == info.verb => Ok(()),
        _ => Err(bare(405)),
    }
}

/// Checks a request to a connect subresource: its methods, and the paths below it if it takes a subpath.
fn check_connect(
    resource: &Resource,
    connecter: &dyn Connecter,
    info: &RequestInfo,
    method: &Method,
) -> Result<(), StatusError> {
    let below = info.depth == Depth::Below && connecter.subpath().is_some();
    let there = info.depth == Depth::Subresource || below;
    if info.verb_in_path || info.in_namespace != resource.namespaced || !there {
        return Err(unserved());
    }
    if !connecter.methods().contains(method) {
        return Err(bare(405));
    }
    // An empty name was authorized as another verb.
    if info.name.is_empty() { Err(name_required()) } else { Ok(()) }
}

/// Checks the verb alone, whatever method and path it came from (custom resources).
fn check_verb(
    resource: &Resource,
    info: &RequestInfo,
    allows: impl Fn(Verb) -> bool,
) -> Result<(), StatusError> {
    if !allows(info.verb) {
        return Err(StatusError::method_not_supported(
            &resource.group_resource(),
            info.verb.as_str(),
        ));
    }
    match info.verb {
        Verb::Update if info.name.is_empty() => Err(name_required()),
        _ => Ok(()),
    }
}

pub(super) fn name_required() -> StatusError {
    StatusError::bad_request("name must be provided")
}
