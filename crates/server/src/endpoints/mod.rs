//! REST handlers: the verbs of resources (upstream: `k8s.io/apiserver/pkg/endpoints/handlers`).

mod apply;
mod connect;
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
mod options;
mod parameters;
mod patch;
mod respond;
mod route;
mod said_kind;
mod spans;
mod table;
mod update;
mod watch;
mod watch_stream;
mod websocket;

pub use self::decode::settle_changed;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kevel_api::gvk::GroupVersionKind;
use kevel_api::selector::shard::ShardSelector;
use kevel_api::status::StatusError;
use kevel_component::future::Pending;
use kevel_registry::context::{CreatePermission, RequestContext};
use kevel_registry::scope::RequestScope;
use kevel_registry::store::Store;
use kevel_registry::type_ref::TypeRef;
use kevel_trace::TraceSpan;

use crate::authorization::{self, Authorizer, Decision, forbidden};
use crate::chain::{hold, logged};
use crate::connecter::{ConnectHandler, Connecters};
use crate::handler::Response;
use crate::latency_trackers::LatencyTrackers;
use crate::negotiate::{self, Accepted, Offer, Shape};
use crate::request::Request;
use crate::request_info::RequestInfo;
use crate::responses::{failure_in, failure_to, form_of_failures};
use kevel_registry::admission::Admission;
use kevel_registry::failure::{bare, unserved};
use kevel_registry::resource::{Resource, Resources, Routing, Subresource, SubresourceKind};
use kevel_registry::storage::Storage;
use kevel_registry::user::User;

pub(crate) use self::route::in_scope;
use kevel_registry::verb::Verb;

/// Settings that all REST handlers of a server share.
#[derive(Default)]
pub struct Endpoints {
    /// The admission chain of all writes.
    pub admission: Admission,
    /// Authorizes again where a request becomes another verb: an update or apply that creates.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// `--min-request-timeout`: shortest duration of a watch whose client sets no timeout.
    pub min_request_timeout: Duration,
    /// Handlers of connect subresources.
    pub connecters: Connecters,
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
        kevel_registry::query::first(&self.request.info.query, name)
    }

    pub fn parameters<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c str> {
        let named = self.request.info.query.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    pub fn namespace(&self) -> &str {
        if self.resource.namespaced { &self.request.info.namespace } else { "" }
    }

    pub fn name(&self) -> &str {
        &self.request.info.name
    }

    /// Kind of the request and response body: the resource's, or the subresource's.
    pub fn kind(&self) -> &GroupVersionKind {
        self.subresource.map_or(&self.resource.kind, |sub| &sub.kind)
    }

    /// Type of the request and response body: the resource's, or the subresource's.
    pub fn ty(&self) -> TypeRef {
        self.scope().ty()
    }

    /// The request without HTTP.
    pub fn scope(&self) -> RequestScope<'_> {
        let Request { info, warnings, audit, meter, .. } = &self.request;
        RequestScope {
            resource: self.resource,
            subresource: self.subresource,
            admission: &self.endpoints.admission,
            context: RequestContext {
                user: &self.user,
                verb: info.verb,
                namespace: &info.namespace,
                name: &info.name,
                subresource: &info.subresource,
                query: &info.query,
                warnings,
                audit,
                audit_id: logged(&self.request.audit_id),
                trackers: LatencyTrackers::of(&self.request).map(|trackers| trackers as _),
                meter,
                span: self.span,
                clock: self.request.clock(),
                started: self.request.received.started,
                deadline: self.request.deadline,
                create_permission: self,
                has_own_labels: &self.has_own_labels,
                takes_trees: self.accepted.in_process,
            },
        }
    }
}

impl CreatePermission for ResourceRequest<'_> {
    fn ensure(&self) -> Pending<'_, Result<(), StatusError>> {
        Box::pin(async {
            let Some(authorizer) = &self.endpoints.authorizer else {
                let why = "no authorizer provided, unable to authorize a create on update";
                return Err(StatusError::internal(why));
            };
            let mut attributes = authorization::Attributes::of(&self.request.info, &self.user);
            attributes.verb = "create";
            let opinion = authorizer.authorize(&attributes).await;
            match (opinion.decision, opinion.error) {
                (Decision::Allow, _) => Ok(()),
                (_, Some(error)) => Err(StatusError::internal(error)),
                (_, None) => Err(forbidden(&attributes, &opinion.reason)),
            }
        })
    }
}

impl StoredRequest<'_> {
    /// The store of the resource's objects, for this request.
    pub fn store(&self) -> Store<'_> {
        Store::new(self.scope(), self.storage)
    }
}

impl Endpoints {
    /// Handler of a connect subresource; 404 if this server has none.
    fn connect_handler(
        &self,
        resource: &Resource,
        info: &RequestInfo,
        role: Option<&SubresourceKind>,
    ) -> Result<Option<&ConnectHandler>, StatusError> {
        if !matches!(role, Some(SubresourceKind::Connecter)) {
            return Ok(None);
        }
        let path = format!("{}/{}", resource.plural, info.subresource);
        let handler = self.connecters.get(&resource.kind.group, &path);
        handler.map(Some).ok_or_else(unserved)
    }

    /// Serves a request to a resource of this server.
    pub async fn serve(
        &self,
        resources: &Resources,
        resource: &Arc<Resource>,
        request: Request,
    ) -> Response {
        let routed = route::subresource(resource, &request.info);
        let routed = routed.and_then(|sub| {
            let role = sub.map(|sub| &sub.role);
            let handler = self.connect_handler(resource, &request.info, role)?;
            let connects = matches!(handler, Some(ConnectHandler::Connecter(_)));
            route::check(resource, &request.info, &request.parts.method, sub, handler)?;
            // The patch's media type is checked before the response's. A proxied PATCH does not patch an object.
            if request.info.verb == Verb::Patch && !connects {
                patch::check(resource, &request)?;
            }
            Ok((sub, handler, accept(resource, role, handler, &request)?))
        });
        // The deprecation warning is only sent where a route exists.
        if routed.is_ok() || resource.conventions.routing == Routing::Verbs {
            deprecation::tell(resource, &request);
        }
        let (subresource, handler, accepted) = match routed {
            Ok(routed) => routed,
            Err(error) => return failure_to(&request, error),
        };
        // A `Status` is no Table: failures use the media type that the client accepts for plain objects.
        let form = match accepted.shape {
            Shape::Whole => accepted.clone(),
            _ => form_of_failures(&request, resource.conventions.cbor),
        };
        // Watches and proxied bodies are not compressed: their events and pieces are sent as they come.
        let passed_on = request.info.verb == Verb::Watch || handler.is_some();
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
        let response = match span.scope(request.dispatch(handler)).await {
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
    handler: Option<&ConnectHandler>,
    request: &Request,
) -> Result<Accepted, StatusError> {
    let conventions = &resource.conventions;
    let (headers, query) = (&request.parts.headers, &request.info.query);
    let (protobuf, cbor) = (conventions.protobuf, conventions.cbor);
    let offer = Offer::Objects { protobuf, cbor, table: has_rows(resource, role) };
    let accepted = negotiate::answer(headers, query, offer);
    let in_process = request.in_process;
    let accepted = accepted.map(|accepted| Accepted { in_process, ..accepted });
    if matches!(handler, Some(ConnectHandler::Connecter(_))) {
        return Ok(accepted.unwrap_or_default());
    }
    let header = negotiate::accept_header(headers);
    let produced = match request.info.verb {
        Verb::List | Verb::Watch => negotiate::list_types(conventions.cbor),
        _ => negotiate::body_types(conventions.cbor),
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
    async fn dispatch(self, handler: Option<&ConnectHandler>) -> Result<Response, StatusError> {
        let (resource, verb) = (self.resource, self.request.info.verb);
        if let Some(creater) = self.creater().filter(|_| verb == Verb::Create).cloned() {
            return self.create_unstored(&*creater).await;
        }
        match handler {
            Some(ConnectHandler::Connecter(connecter)) => return self.connect(&**connecter).await,
            Some(ConnectHandler::GetterWithOptions(getter)) => {
                return self.get_with_options(&**getter).await;
            }
            None => {}
        }
        let storage = resource.storage.as_ref().ok_or_else(|| bare(405))?;
        let request = StoredRequest { resource_request: self, storage };
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
