//! What leads from an object to somewhere else: a connection (`rest.Connecter`), or an answer that comes
//! from there (`rest.GetterWithOptions`).

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

/// Connects clients with something behind an object, such as a command in a container. What it is told comes
/// from the query, as an object of the subresource's kind (`PodExecOptions`).
pub trait Connecter: Debug + Send + Sync + 'static {
    /// The methods that it takes (`ConnectMethods`).
    fn methods(&self) -> &'static [Method];

    /// The option that is what stands below the subresource in the path, if something may stand there.
    fn subpath(&self) -> Option<&'static str> {
        None
    }

    /// What a user must be allowed beside the verb of its method.
    fn required_verb(&self) -> Option<Verb> {
        None
    }

    /// Connects, and answers. The request has been authorized and admitted.
    fn connect<'a>(
        &'a self,
        request: ConnectRequest<'a>,
    ) -> Pending<'a, Result<Response, StatusError>>;
}

/// Answers a GET of a subresource with something that is no object, such as a log.
pub trait GetterWithOptions: Debug + Send + Sync + 'static {
    /// The type of the options, which come from the query.
    fn options_type(&self) -> &TypeRef;

    /// The answer.
    fn get<'a>(&'a self, request: ConnectRequest<'a>)
    -> Pending<'a, Result<Response, StatusError>>;
}

/// A request that leads somewhere else: from which object, and how.
#[derive(Debug)]
pub struct ConnectRequest<'a> {
    /// The resource that the path names.
    pub resource: &'a Arc<Resource>,
    /// The rows of the server.
    pub resources: &'a Resources,
    /// Empty where the kind has none.
    pub namespace: String,
    /// What the path names: an object, or more than its name (`https:name:443`).
    pub name: String,
    /// The options.
    pub options: Value,
    /// The request itself, whose body nobody has read.
    pub request: Request,
}

impl ConnectRequest<'_> {
    /// Whether an option is set.
    pub fn flag(&self, name: &str) -> bool {
        self.options.at(&[name]).and_then(Value::as_bool).unwrap_or_default()
    }
}
