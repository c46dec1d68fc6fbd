//! Connections to something behind an object (upstream: `rest.Connecter`), and responses read from there (upstream:
//! `rest.GetterWithOptions`).

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use http::Method;
use kevel_api::status::{StatusError, reason};
use kevel_api::value::Value;

use crate::handler::Response;
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::resource::{Resource, Resources};
use kevel_registry::type_ref::TypeRef;
use kevel_registry::verb::Verb;

/// Handler of a subresource that leads away from the objects.
#[derive(Clone, Debug)]
pub enum ConnectHandler {
    /// A connection (`pods/exec`).
    Connecter(Arc<dyn Connecter>),
    /// Something read elsewhere by a GET (`pods/log`).
    GetterWithOptions(Arc<dyn GetterWithOptions>),
}

/// Handlers of connect subresources, by resource and subresource (`pods/exec`), all in the core group.
#[derive(Clone, Debug, Default)]
pub struct Connecters(HashMap<&'static str, ConnectHandler>);

impl Connecters {
    /// Handlers by path.
    pub fn new<const N: usize>(handlers: [(&'static str, ConnectHandler); N]) -> Self {
        Connecters(HashMap::from(handlers))
    }

    /// Handler of a path in a group.
    pub fn get(&self, group: &str, path: &str) -> Option<&ConnectHandler> {
        self.0.get(path).filter(|_| group.is_empty())
    }

    /// Number of handlers.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Connects clients with something behind an object, such as a command in a container (upstream: `rest.Connecter`). Its
/// options come from the query, as an object of the subresource's kind (`PodExecOptions`).
pub trait Connecter: Debug + Send + Sync + 'static {
    /// Supported methods (upstream: `ConnectMethods`).
    fn methods(&self) -> &'static [Method];

    /// Option that takes the path below the subresource, if such paths are allowed.
    fn subpath(&self) -> Option<&'static str> {
        None
    }

    /// Verb that the user must be authorized for besides the request's own.
    fn required_verb(&self) -> Option<Verb> {
        None
    }

    /// Connects and responds. The request has been authorized and admitted.
    fn connect<'a>(
        &'a self,
        request: ConnectRequest<'a>,
    ) -> Pending<'a, Result<Response, StatusError>>;
}

/// Answers a GET of a subresource with something other than an object, such as a log.
pub trait GetterWithOptions: Debug + Send + Sync + 'static {
    /// Type of the options, which come from the query.
    fn options_type(&self) -> &TypeRef;

    /// Responds to the request.
    fn get<'a>(&'a self, request: ConnectRequest<'a>)
    -> Pending<'a, Result<Response, StatusError>>;
}

/// A request to a connect subresource.
#[derive(Debug)]
pub struct ConnectRequest<'a> {
    /// Resource of the path.
    pub resource: &'a Arc<Resource>,
    /// All resources of the server.
    pub resources: &'a Resources,
    /// Namespace; empty for a cluster-scoped resource.
    pub namespace: String,
    /// Name in the path: an object's, or more than its name (`https:name:443`).
    pub name: String,
    /// Decoded options.
    pub options: Value,
    /// The request, with its body unread.
    pub request: Request,
}

impl ConnectRequest<'_> {
    /// Whether a boolean option is set.
    pub fn flag(&self, name: &str) -> bool {
        self.options.at(&[name]).and_then(Value::as_bool).unwrap_or_default()
    }

    /// An object of a core resource. As in the reference, NotFound names the request's resource instead of `plural`.
    pub async fn find(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Value, StatusError> {
        let row = self.resources.current().get("", "v1", plural).cloned();
        let row = row.ok_or_else(|| StatusError::internal(format!("{plural} are not served")))?;
        row.find(namespace, name).await.map_err(|error| match error.reason() {
            reason::NOT_FOUND => StatusError::not_found(&self.resource.group_resource(), name),
            _ => error,
        })
    }
}
