//! The verbs of resources.

mod admission;
mod answer;
mod apply;
mod create;
mod decode;
mod delete;
mod delete_options;
mod get;
mod gzip;
mod list;
mod list_pieces;
mod names;
mod options;
mod ownership;
mod patch;
mod respond;
mod route;
mod scale;
mod table;
mod timestamps;
mod update;
mod versions;
mod watch;
mod watch_stream;
mod websocket;

pub use self::decode::settle_changed;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;

use crate::admission::Admission;
use crate::authorization::Authorizer;
use crate::failure::bare;
use crate::handler::Response;
use crate::negotiate::{self, Accepted};
use crate::request::Request;
use crate::resource::{Part, Resource, Resources, Subresource};
use crate::responses::{failure_in, failure_to};
use crate::storage::Storage;
use crate::strategy::Strategy;
use crate::user::User;

use self::versions::Asked;
use crate::verb::Verb;

/// What all endpoints of a server share.
#[derive(Default)]
pub struct Endpoints {
    /// Who changes and judges what is written.
    pub admission: Admission,
    /// Asked again where one verb turns into another: who updates what is not there creates it.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

impl std::fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoints").field("admission", &self.admission).finish_non_exhaustive()
    }
}

/// A request to a resource.
pub(crate) struct Ask<'a> {
    pub endpoints: &'a Endpoints,
    /// The rows of the server that is asked.
    pub resources: &'a Resources,
    pub resource: &'a Arc<Resource>,
    pub subresource: Option<&'a Subresource>,
    pub request: Request,
    pub accepted: Accepted,
    pub user: Arc<User>,
}

/// A request to a resource whose objects are stored.
pub(crate) struct Call<'a> {
    ask: Ask<'a>,
    pub storage: &'a Arc<Storage>,
    /// The versions that somebody else had to be asked for.
    asked: Asked,
}

impl<'a> Deref for Call<'a> {
    type Target = Ask<'a>;

    fn deref(&self) -> &Ask<'a> {
        &self.ask
    }
}

impl DerefMut for Call<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.ask
    }
}

impl Ask<'_> {
    pub fn parameter(&self, name: &str) -> Option<&str> {
        crate::query::first(&self.request.info.query, name)
    }

    pub fn parameters<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c str> {
        let named = self.request.info.query.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// The namespace of the object; empty where its kind has none.
    pub fn namespace(&self) -> &str {
        if self.resource.namespaced { &self.request.info.namespace } else { "" }
    }

    pub fn name(&self) -> &str {
        &self.request.info.name
    }

    pub fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    /// The rules of what is written here: the object's, or its subresource's own.
    pub fn strategy(&self) -> &dyn Strategy {
        match self.subresource.map(|sub| &sub.part) {
            Some(Part::Places(places)) => &*places.strategy,
            _ => &*self.resource.strategy,
        }
    }
}

impl Endpoints {
    /// Answers a request to a resource of this server.
    pub async fn serve(
        &self,
        resources: &Resources,
        resource: &Arc<Resource>,
        request: Request,
    ) -> Response {
        let headers = &request.parts.headers;
        let query = &request.info.query;
        let accepted = match negotiate::answer(headers, query, !resource.is_custom()) {
            Ok(accepted) => accepted,
            Err(_) if resource.is_custom() => {
                let error = StatusError::not_acceptable(&negotiate::BODY_TYPES);
                return failure_to(&request, error);
            }
            Err(_) if matches!(request.info.verb, Verb::List | Verb::Watch) => {
                let error = negotiate::not_acceptable(&negotiate::ANSWER_TYPES);
                return failure_to(&request, error);
            }
            Err(error) => return failure_to(&request, error),
        };
        let form = accepted.clone();
        // A watch goes out event by event.
        let compress = request.info.verb != Verb::Watch && gzip::is_accepted(headers);
        match self.dispatch(resources, resource, request, accepted).await {
            Ok(response) if compress => gzip::compress(response),
            Ok(response) => response,
            Err(error) => failure_in(error, &form),
        }
    }

    async fn dispatch(
        &self,
        resources: &Resources,
        resource: &Arc<Resource>,
        request: Request,
        accepted: Accepted,
    ) -> Result<Response, StatusError> {
        let subresource = route::check(resource, &request.info, &request.parts.method)?;
        if let Some(warning) = resource.strategy.deprecation() {
            request.warnings.add(warning);
        }
        let user = request.user.clone().unwrap_or_else(|| Arc::new(User::anonymous()));
        let verb = request.info.verb;
        let ask =
            Ask { endpoints: self, resources, resource, subresource, request, accepted, user };
        if let Some(answer) = ask.answerer().filter(|_| verb == Verb::Create).cloned() {
            return ask.answer(&*answer).await;
        }
        let storage = resource.storage.as_ref().ok_or_else(|| bare(405))?;
        let call = Call { ask, storage, asked: Asked::default() };
        match verb {
            Verb::Get => call.get().await,
            Verb::List => call.list().await,
            Verb::Watch => call.watch().await,
            Verb::Create => call.create().await,
            Verb::Update => call.update().await,
            Verb::Patch => call.patch().await,
            Verb::Delete => call.delete().await,
            Verb::DeleteCollection => call.delete_collection().await,
            _ => Err(bare(405)),
        }
    }
}
