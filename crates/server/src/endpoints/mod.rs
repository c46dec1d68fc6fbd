//! REST handlers: the verbs of resources (upstream: `k8s.io/apiserver/pkg/endpoints/handlers`).

mod admission;
mod apply;
mod connect;
mod continue_token;
mod corrupt;
mod create;
mod creater;
mod decode;
mod decode_cbor;
mod delete;
mod delete_options;
mod deprecation;
mod get;
mod gzip;
mod list;
mod list_pieces;
mod names;
mod options;
mod owner_references;
mod ownership;
mod parameters;
mod patch;
mod respond;
mod route;
mod said_kind;
mod scale;
mod spans;
mod table;
mod timestamps;
mod update;
mod version_selector;
mod versions;
mod watch;
mod watch_stream;
mod websocket;

pub use self::decode::settle_changed;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kevel_api::gvk::GroupResource;
use kevel_api::selector::shard::ShardSelector;
use kevel_api::status::StatusError;
use kevel_trace::TraceSpan;

use crate::admission::Admission;
use crate::authorization::Authorizer;
use crate::chain::hold;
use crate::failure::bare;
use crate::handler::Response;
use crate::negotiate::{self, Accepted, Offer, Shape};
use crate::request::Request;
use crate::resource::{Resource, Resources, Routing, Subresource, SubresourceKind};
use crate::responses::{failure_in, failure_to, form_of_failures};
use crate::storage::Storage;
use crate::strategy::Strategy;
use crate::user::User;

pub(crate) use self::route::in_scope;
use self::versions::ConvertedVersions;
use crate::verb::Verb;

/// Settings that all REST handlers of a server share.
#[derive(Default)]
pub struct Endpoints {
    /// The admission chain of all writes.
    pub admission: Admission,
    /// Authorizes again where a request becomes another verb: an update or apply that creates.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// `--min-request-timeout`: shortest duration of a watch whose client sets no timeout.
    pub min_request_timeout: Duration,
    /// Features of requests that can be switched off.
    pub features: RequestFeatures,
    /// `ShardedListAndWatch`: the parser of shard selectors, which are expressions; `None` where they are ignored.
    pub shard_selectors: Option<ParseShardSelector>,
}

/// Parser of the parameter `shardSelector`.
pub type ParseShardSelector = fn(&str) -> Result<ShardSelector, StatusError>;

/// Features of requests that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFeatures {
    /// `APIResponseCompression`: large responses are compressed for clients that accept it.
    pub compression: bool,
    /// `WatchList`: a watch may ask for the state that it begins with.
    pub watch_list: bool,
}

impl Default for RequestFeatures {
    fn default() -> Self {
        RequestFeatures { compression: true, watch_list: true }
    }
}

/// Default of [`Endpoints::min_request_timeout`].
pub const MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(1800);

impl std::fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoints").field("admission", &self.admission).finish_non_exhaustive()
    }
}

/// A request to a resource.
pub(crate) struct ResourceRequest<'a> {
    pub endpoints: &'a Endpoints,
    /// All resources of the server.
    pub resources: &'a Resources,
    pub resource: &'a Arc<Resource>,
    pub subresource: Option<&'a Subresource>,
    pub request: Request,
    pub accepted: Accepted,
    pub user: Arc<User>,
    /// Span of the verb.
    pub span: &'a TraceSpan,
    /// Whether the object came with labels, before defaults were filled in.
    has_own_labels: AtomicBool,
}

/// A request to a resource with storage.
pub(crate) struct StoredRequest<'a> {
    resource_request: ResourceRequest<'a>,
    pub storage: &'a Arc<Storage>,
    /// The object in the versions that a conversion webhook has returned.
    converted: ConvertedVersions,
}

impl<'a> Deref for StoredRequest<'a> {
    type Target = ResourceRequest<'a>;

    fn deref(&self) -> &ResourceRequest<'a> {
        &self.resource_request
    }
}

impl DerefMut for StoredRequest<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.resource_request
    }
}

impl ResourceRequest<'_> {
    pub fn parameter(&self, name: &str) -> Option<&str> {
        crate::query::first(&self.request.info.query, name)
    }

    pub fn parameters<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c str> {
        let named = self.request.info.query.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Namespace of the object; empty for a cluster-scoped resource.
    pub fn namespace(&self) -> &str {
        if self.resource.namespaced { &self.request.info.namespace } else { "" }
    }

    pub fn name(&self) -> &str {
        &self.request.info.name
    }

    pub fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    /// Strategy of the write: the resource's, or the subresource's own.
    pub fn strategy(&self) -> &dyn Strategy {
        match self.subresource.map(|sub| &sub.role) {
            Some(SubresourceKind::Fields(fields)) => &*fields.strategy,
            _ => &*self.resource.strategy,
        }
    }
}

impl Endpoints {
    /// Serves a request to a resource of this server.
    pub async fn serve(
        &self,
        resources: &Resources,
        resource: &Arc<Resource>,
        request: Request,
    ) -> Response {
        let routed = route::check(resource, &request.info, &request.parts.method);
        let routed = routed.and_then(|sub| {
            let role = sub.map(|sub| &sub.role);
            let connects = matches!(role, Some(SubresourceKind::Connecter(_)));
            // The patch's media type is checked before the response's. A proxied PATCH does not patch an object.
            if request.info.verb == Verb::Patch && !connects {
                patch::check(resource, &request)?;
            }
            Ok((sub, accept(resource, role, &request)?))
        });
        // The deprecation warning is only sent where a route exists.
        if routed.is_ok() || resource.conventions.routing == Routing::Verbs {
            deprecation::tell(resource, &request);
        }
        let (subresource, accepted) = match routed {
            Ok(routed) => routed,
            Err(error) => return failure_to(&request, error),
        };
        // A `Status` is no Table: failures use the media type that the client accepts for plain objects.
        let form = match accepted.shape {
            Shape::Whole => accepted.clone(),
            _ => form_of_failures(&request, resource.conventions.cbor),
        };
        // Watches and proxied bodies are not compressed: their events and pieces are sent as they come.
        let passed_on = request.info.verb == Verb::Watch
            || subresource.is_some_and(|sub| {
                use SubresourceKind::{Connecter, GetterWithOptions};
                matches!(sub.role, Connecter(_) | GetterWithOptions(_))
            });
        let compress =
            self.features.compression && !passed_on && gzip::is_accepted(&request.parts.headers);
        let user = request.user.clone().unwrap_or_else(|| Arc::new(User::anonymous()));
        let endpoints = self;
        let span = spans::of_verb(&request);
        let request = ResourceRequest {
            endpoints,
            resources,
            resource,
            subresource,
            request,
            accepted,
            user,
            span: &span,
            has_own_labels: AtomicBool::new(false),
        };
        let response = match span.scope(request.dispatch()).await {
            Ok(response) if compress => gzip::compress(response),
            Ok(response) => response,
            Err(error) => failure_in(error, &form),
        };
        match span.is_recording() {
            true => hold(response, span),
            false => response,
        }
    }
}

/// Negotiates the response's media type and shape. For a connect subresource it applies to failures only.
fn accept(
    resource: &Resource,
    role: Option<&SubresourceKind>,
    request: &Request,
) -> Result<Accepted, StatusError> {
    let conventions = &resource.conventions;
    let (headers, query) = (&request.parts.headers, &request.info.query);
    let (protobuf, cbor) = (conventions.protobuf, conventions.cbor);
    let offer = Offer::Objects { protobuf, cbor, table: has_rows(resource, role) };
    let accepted = negotiate::answer(headers, query, offer);
    let in_process = request.in_process;
    let accepted = accepted.map(|accepted| Accepted { in_process, ..accepted });
    if matches!(role, Some(SubresourceKind::Connecter(_))) {
        return Ok(accepted.unwrap_or_default());
    }
    let header = negotiate::accept_header(headers);
    let produced = match request.info.verb {
        Verb::List | Verb::Watch => conventions.cbor.list_types(),
        _ => conventions.cbor.body_types(),
    };
    if conventions.routing == Routing::Routes && !negotiate::is_routed(header, produced) {
        return Err(negotiate::not_acceptable(produced));
    }
    accepted
}

/// Whether the path's objects can be shown as a Table (upstream: `TableConvertor`): objects, their status and scale.
fn has_rows(resource: &Resource, role: Option<&SubresourceKind>) -> bool {
    match role {
        None => resource.creater.is_none(),
        Some(SubresourceKind::Status) => resource.strategy.status_has_rows(),
        Some(SubresourceKind::Scale(_)) => true,
        Some(_) => false,
    }
}

impl<'a> ResourceRequest<'a> {
    /// Serves the request by its verb.
    async fn dispatch(self) -> Result<Response, StatusError> {
        let (resource, verb) = (self.resource, self.request.info.verb);
        if let Some(creater) = self.creater().filter(|_| verb == Verb::Create).cloned() {
            return self.create_unstored(&*creater).await;
        }
        match self.subresource.map(|sub| &sub.role) {
            Some(SubresourceKind::Connecter(connecter)) => return self.connect(&**connecter).await,
            Some(SubresourceKind::GetterWithOptions(getter)) => {
                return self.get_with_options(&**getter).await;
            }
            _ => {}
        }
        let storage = resource.storage.as_ref().ok_or_else(|| bare(405))?;
        let converted = ConvertedVersions::default();
        let request = StoredRequest { resource_request: self, storage, converted };
        match verb {
            Verb::Get => request.get().await,
            Verb::List => request.list().await,
            Verb::Watch => request.watch().await,
            Verb::Create => request.create().await,
            Verb::Update => request.update().await,
            Verb::Patch => request.patch().await,
            Verb::Delete => request.delete().await,
            Verb::DeleteCollection => request.delete_collection().await,
            _ => Err(bare(405)),
        }
    }
}
