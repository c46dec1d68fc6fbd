//! Connections to something behind an object (upstream: `rest.Connecter`), and responses read from there (upstream:
//! `rest.GetterWithOptions`).

use std::fmt::Debug;
use std::sync::Arc;

use http::Method;
use kevel_api::status::StatusError;
use kevel_api::value::Value;

use crate::future::Pending;
use crate::handler::Response;
use crate::request::Request;
use crate::resource::{Resource, Resources};
use crate::type_ref::TypeRef;
use crate::verb::Verb;

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
}
