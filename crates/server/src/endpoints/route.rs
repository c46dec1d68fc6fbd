//! Whether a request's method and path lead anywhere. The verb is the one that was authorized: a route
//! that would mean another one is none.

use http::Method;
use kevel_api::status::StatusError;

use crate::failure::{bare, unserved};
use crate::request_info::{Depth, RequestInfo};
use crate::resource::{Resource, Subresource};
use crate::verb::Verb;

/// Methods and what they mean.
type Routes = &'static [(Method, Verb)];

const COLLECTION: Routes = &[
    (Method::GET, Verb::List),
    (Method::POST, Verb::Create),
    (Method::DELETE, Verb::DeleteCollection),
];
/// Across namespaces nothing is made or deleted.
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

/// Checks a request to a resource; the subresource that it is about, if it is about one.
pub(super) fn check<'r>(
    resource: &'r Resource,
    info: &RequestInfo,
    method: &Method,
) -> Result<Option<&'r Subresource>, StatusError> {
    let subresource = match info.subresource.as_str() {
        "" => None,
        name => Some(resource.subresources.get(name).ok_or_else(unserved)?),
    };
    let allows = |verb: Verb| match subresource {
        None => resource.allows(verb),
        Some(sub) => sub.verbs.contains(&verb),
    };
    match resource.is_custom() {
        true => check_custom(resource, info, allows)?,
        false => check_built_in(resource, info, method, allows)?,
    }
    Ok(subresource)
}

/// Built-in kinds have a route for each method and form of path.
fn check_built_in(
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
        // Without a name, another verb was authorized.
        _ if below && info.name.is_empty() => Err(name_required()),
        Verb::List if info.verb == Verb::Watch && !allows(Verb::Watch) => {
            Err(StatusError::method_not_supported(&resource.group_resource(), Verb::Watch.as_str()))
        }
        Verb::List if info.verb == Verb::Watch => Ok(()),
        verb if verb == info.verb => Ok(()),
        _ => Err(bare(405)),
    }
}

/// Custom kinds go by the verb alone, whatever method or path said it.
fn check_custom(
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
