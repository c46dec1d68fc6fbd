//! Discovery: `/`, `/api`, `/apis` and the documents below them.
//!
//! Documents are derived from the resources, which change while the server runs. Those of one state are kept as bytes,
//! each made at its first request, and read without a lock.

mod accept;
mod addresses;
mod aggregated;
pub(crate) mod documents;
mod peers;
pub mod priority;
mod registered;
mod storage_version_hash;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderValue, Method, header};
use kevel_api::schema::Schema;
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_codec::{json, protobuf, yaml};

pub use self::addresses::{Addresses, Rule};
pub use self::peers::{PeerDiscovery, PeerGroups};
pub use self::registered::{Registered, Registrations, RemoteVersion};

use self::accept::{DocumentForm, accept};
use self::aggregated::Aggregated;
use self::documents::Snapshot;
use self::peers::PeerAggregation;
use crate::body::Body;
use crate::handler::{Filter, Handler, Response};
use crate::metrics::Metrics;
use crate::negotiate::{self, MediaType};
use crate::request::Request;
use crate::responses::{cbor_document, failure_to, indented};
use kevel_component::future::Pending;
use kevel_registry::failure::bare;
use kevel_registry::resource::Cbor;
use kevel_registry::resource::Resources;

/// Filter that serves discovery documents, and passes other requests on.
pub struct Discovery {
    tables: Vec<Arc<Resources>>,
    /// Groups that `/apis` lists, if not just those of the tables (APIServices).
    registered: Option<Arc<dyn Registered>>,
    /// Discovery documents of peer API servers, if enabled.
    peers: Option<PeerAggregation>,
    addresses: Addresses,
    /// Plain paths, for the index at `/`.
    paths: BTreeSet<String>,
    documents: ArcSwapOption<Documents>,
}

impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Discovery").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl Discovery {
    /// Discovery of the servers of a chain, in its order. `paths` are the plain paths that `/` lists besides those of
    /// groups and versions.
    pub fn new(
        tables: Vec<Arc<Resources>>,
        addresses: Addresses,
        paths: impl IntoIterator<Item = String>,
    ) -> Self {
        let paths = paths.into_iter().collect();
        let documents = ArcSwapOption::empty();
        Discovery { tables, registered: None, peers: None, addresses, paths, documents }
    }

    /// Lists the registered groups (APIServices) instead of the tables' groups.
    pub fn with_registered(self, registered: Arc<dyn Registered>) -> Self {
        Discovery { registered: Some(registered), ..self }
    }

    /// Merges the groups of peers into aggregated documents, except for `profile=nopeer`.
    pub fn with_peers(self, metrics: &Metrics, peers: Option<Arc<dyn PeerDiscovery>>) -> Self {
        Discovery { peers: Some(PeerAggregation::new(metrics, peers)), ..self }
    }

    /// Response to a request for a document; `None` if the path names none.
    pub fn serve(&self, request: &Request) -> Option<Response> {
        let path = request.info.path.as_str();
        if request.info.is_resource {
            return None;
        }
        if path == "/" || path == "/index.html" {
            return Some(self.index());
        }
        let (target, routed) = Target::parse(path)?;
        let documents = self.documents();
        let snapshot = &documents.snapshot;
        let exists = match target {
            Target::Api => snapshot.versions("").is_some(),
            Target::Apis => true,
            Target::Group(group) => documents.group(group).is_some(),
            Target::Version(group, version) => snapshot.is_served(group, version),
        };
        exists.then(|| {
            let answer = self.answer(&documents, target, routed, request);
            answer.unwrap_or_else(|error| failure_to(request, error))
        })
    }

    fn answer(
        &self,
        documents: &Documents,
        target: Target<'_>,
        routed: bool,
        request: &Request,
    ) -> Result<Response, StatusError> {
        // Paths without a go-restful route accept any method.
        if routed && request.parts.method != Method::GET {
            return Err(bare(405));
        }
        let cbor = documents.cbor(target, routed);
        if routed
            && !negotiate::is_routed(request.header(header::ACCEPT), negotiate::body_types(cbor))
        {
            return Err(negotiate::not_acceptable(negotiate::body_types(cbor)));
        }
        let roots = matches!(target, Target::Api | Target::Apis);
        let media = match accept(request.header(header::ACCEPT), roots, cbor)? {
            DocumentForm::Aggregated(media, alone) => {
                let apis = matches!(target, Target::Apis);
                return self.aggregated(documents, apis, alone)?.answer(media, request);
            }
            DocumentForm::Unaggregated(media) => media,
        };
        let body = match target {
            Target::Api => {
                let client = request.connection.peer.map(|peer| peer.ip());
                let versions = documents.snapshot.versions("").unwrap_or_default();
                let value = documents::api_versions(versions, self.addresses.of(client));
                encode(&value, documents::schema("", "v1", "APIVersions"), media)?
            }
            _ => documents.alone(target, media)?,
        };
        Ok(respond(media.name(), pretty(body, media, request)))
    }

    /// The aggregated document of `/api` or `/apis`.
    fn aggregated<'d>(
        &self,
        documents: &'d Documents,
        apis: bool,
        alone: bool,
    ) -> Result<&'d Aggregated, StatusError> {
        let local = || documents.aggregated(usize::from(apis));
        let Some(aggregation) = &self.peers else { return local() };
        if alone {
            aggregation.no_peer.increment();
        }
        let Some(peers) = documents.peers.as_ref().filter(|_| apis && !alone) else {
            return local();
        };
        if let Some(known) = documents.of_all.get() {
            aggregation.hits.increment();
            return Ok(known);
        }
        aggregation.misses.increment();
        let items = peers::merge(local()?.value.list_at(&["items"]), peers);
        let merged = Map::from_iter([("items", Value::List(items.into_iter().collect()))]);
        Ok(kevel_compute::filled(&documents.of_all, || Aggregated::new(merged)))
    }

    /// `/`: the index of all paths.
    fn index(&self) -> Response {
        let documents = self.documents();
        let mut paths: BTreeSet<&str> = self.paths.iter().map(String::as_str).collect();
        let mut own: Vec<String> = vec!["/apis".into(), "/apis/".into()];
        for Group { name: group, versions, .. } in &documents.groups {
            let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
            own.extend(versions.iter().map(|version| format!("{root}/{version}")));
            own.push(root);
        }
        paths.extend(own.iter().map(String::as_str));
        let paths = Value::List(paths.into_iter().map(Value::from).collect());
        let mut body = Vec::new();
        json::encode_any_pretty(&Value::Map(Map::from_iter([("paths", paths)])), &mut body);
        respond(MediaType::Json.name(), body.into())
    }

    /// Documents of the current resources.
    fn documents(&self) -> Arc<Documents> {
        let rows: Vec<_> = self.tables.iter().map(|table| table.current()).collect();
        let registered = self.registered.as_ref().map(|registered| registered.current());
        let peers = self.peers.as_ref().and_then(|peers| peers.peers.as_ref());
        let peers = peers.map(|peers| peers.current());
        if let Some(known) = &*self.documents.load()
            && known.snapshot.is_of(rows.iter().map(|rows| &**rows))
            && known.registered.as_ref().map(Arc::as_ptr) == registered.as_ref().map(Arc::as_ptr)
            && known.peers.as_ref().map(Arc::as_ptr) == peers.as_ref().map(Arc::as_ptr)
        {
            return known.clone();
        }
        let tables = rows.iter().map(|rows| Arc::clone(rows)).collect();
        let documents = Documents::new(Snapshot::new(tables), registered);
        let documents = Arc::new(Documents { peers, ..documents });
        self.documents.store(Some(documents.clone()));
        documents
    }
}

impl Filter for Discovery {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        match self.serve(&request) {
            Some(response) => Box::pin(std::future::ready(response)),
            None => next.handle(request),
        }
    }
}

/// Document that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target<'p> {
    Api,
    Apis,
    Group(&'p str),
    Version(&'p str, &'p str),
}

impl<'p> Target<'p> {
    /// Parses a path; the flag tells whether it has a go-restful route, which checks method and media types. Groups are
    /// served by the aggregator without a route, except its own, with at most one trailing slash; custom resources have
    /// no routes.
    fn parse(path: &'p str) -> Option<(Self, bool)> {
        let path = path.strip_prefix('/')?;
        let trimmed = path.trim_end_matches('/');
        let several = path.len() > trimmed.len() + 1;
        let mut parts = trimmed.split('/');
        let built_in = |group| kevel_api::builtin::kinds().iter().any(|kind| kind.group == group);
        match (parts.next()?, parts.next(), parts.next(), parts.next()) {
            ("api", None, ..) => Some((Target::Api, true)),
            ("api", Some(version), None, _) => Some((Target::Version("", version), true)),
            ("apis", None, ..) => (!several).then_some((Target::Apis, false)),
            ("apis", Some(""), ..) => None,
            ("apis", Some(group), None, _) => {
                let routed = group == REGISTRATIONS || several && built_in(group);
                Some((Target::Group(group), routed))
            }
            ("apis", Some(group), Some(version), None) => {
                Some((Target::Version(group, version), built_in(group)))
            }
            _ => None,
        }
    }
}

/// Documents of one state of resources and registrations.
#[derive(Debug)]
struct Documents {
    snapshot: Snapshot,
    registered: Option<Arc<Registrations>>,
    peers: Option<Arc<PeerGroups>>,
    /// Aggregated documents of `/api` and `/apis`.
    aggregated: [OnceLock<Aggregated>; 2],
    /// Aggregated document of `/apis` with peers.
    of_all: OnceLock<Aggregated>,
    groups: Vec<Group>,
    /// Resource lists by group and version, as in the snapshot.
    versions: Vec<Vec<Forms>>,
    list: Forms,
}

/// A group as in `/apis/<group>`.
#[derive(Debug)]
pub(crate) struct Group {
    pub name: String,
    pub versions: Vec<String>,
    /// Whether `/apis` lists the group; a group that is served without an APIService is not listed.
    pub listed: bool,
    forms: Forms,
}

/// Encodings of a document: JSON, YAML, protobuf, CBOR.
#[derive(Debug, Default)]
struct Forms([OnceLock<Bytes>; 4]);

/// The group of APIServices, which has no APIService itself and is always listed first.
const REGISTRATIONS: &str = "apiregistration.k8s.io";

impl Documents {
    /// Whether a document is available in CBOR: only resource lists are, as their routes are the resources' own.
    fn cbor(&self, target: Target<'_>, routed: bool) -> Cbor {
        let Target::Version(group, version) = target else { return Cbor(false) };
        let rows = self.snapshot.resources(group, version);
        Cbor(routed && rows.values().any(|row| row.conventions.cbor.0))
    }

    fn new(snapshot: Snapshot, registered: Option<Arc<Registrations>>) -> Self {
        let forms = |(_, versions): &(String, Vec<String>)| {
            versions.iter().map(|_| Forms::default()).collect()
        };
        let versions = snapshot.groups.iter().map(forms).collect();
        let groups = groups(&snapshot, registered.as_deref());
        let (peers, aggregated, of_all, list) = Default::default();
        Documents { snapshot, registered, peers, aggregated, of_all, groups, versions, list }
    }

    fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    fn alone(&self, target: Target<'_>, media: MediaType) -> Result<Bytes, StatusError> {
        let snapshot = &self.snapshot;
        let missing = || bare(404);
        match target {
            Target::Api | Target::Apis => {
                let listed = self.groups.iter().filter(|group| group.listed);
                let make = || documents::api_group_list(listed);
                self.list.get(media, "APIGroupList", make)
            }
            Target::Group(name) => {
                let group = self.group(name).ok_or_else(missing)?;
                let make = || documents::api_group(name, &group.versions);
                group.forms.get(media, "APIGroup", make)
            }
            Target::Version(group, version) => {
                let versions = snapshot.versions(group).unwrap_or_default();
                let at = versions.iter().position(|name| name == version);
                let forms = snapshot.groups.iter().position(|(name, _)| name == group);
                let forms = forms.and_then(|at| self.versions.get(at));
                let forms = forms.zip(at).and_then(|(forms, at)| forms.get(at));
                let make = || documents::api_resource_list(snapshot, group, version);
                forms.ok_or_else(missing)?.get(media, "APIResourceList", make)
            }
        }
    }

    fn aggregated(&self, index: usize) -> Result<&Aggregated, StatusError> {
        let slot = self.aggregated.get(index).ok_or_else(|| bare(404))?;
        let remote = self.registered.as_ref().map_or(&[][..], |registered| &registered.remote);
        let make = || documents::aggregated(&self.snapshot, remote, index == 0);
        Ok(kevel_compute::filled(slot, || Aggregated::new(make())))
    }
}

/// All groups, in the order of `/apis`.
fn groups(snapshot: &Snapshot, registered: Option<&Registrations>) -> Vec<Group> {
    let group = |(name, versions): &(String, Vec<String>), listed| {
        let (name, versions, forms) = (name.clone(), versions.clone(), Forms::default());
        Group { name, versions, listed, forms }
    };
    let own = snapshot.groups.iter();
    let Some(registered) = registered else { return own.map(|own| group(own, true)).collect() };
    let (first, own): (Vec<_>, Vec<_>) = own.partition(|(name, _)| name == REGISTRATIONS);
    let mut groups: Vec<Group> = first.into_iter().map(|first| group(first, true)).collect();
    groups.extend(registered.groups.iter().map(|registered| group(registered, true)));
    let unlisted = own.into_iter().filter(|(name, _)| !groups.iter().any(|g| g.name == *name));
    let unlisted: Vec<Group> = unlisted.map(|own| group(own, false)).collect();
    groups.extend(unlisted);
    groups
}

impl Forms {
    fn get(
        &self,
        media: MediaType,
        kind: &str,
        make: impl FnOnce() -> Value,
    ) -> Result<Bytes, StatusError> {
        let encode = || encode(&make(), documents::schema("", "v1", kind), media);
        self.kept(media, encode)
    }

    /// The cached encoding, made now if absent. Concurrent requests make the same bytes.
    fn kept(
        &self,
        media: MediaType,
        make: impl FnOnce() -> Result<Bytes, StatusError>,
    ) -> Result<Bytes, StatusError> {
        let [json, yaml, protobuf, cbor] = &self.0;
        let slot = match media {
            MediaType::Json => json,
            MediaType::Yaml => yaml,
            MediaType::Protobuf => protobuf,
            MediaType::Cbor => cbor,
        };
        if let Some(bytes) = slot.get() {
            return Ok(bytes.clone());
        }
        let bytes = make()?;
        Ok(slot.get_or_init(|| bytes).clone())
    }
}

fn encode(value: &Value, schema: Schema<'_>, media: MediaType) -> Result<Bytes, StatusError> {
    let mut text = Vec::new();
    match media {
        MediaType::Protobuf => return Ok(protobuf::encode_object(value, schema).into()),
        MediaType::Cbor => return Ok(cbor_document(value, Some(schema)).into()),
        MediaType::Yaml => yaml::encode(value, schema, &mut text).map_err(StatusError::internal)?,
        MediaType::Json => {
            json::encode(value, schema, &mut text);
            text.push(b'\n');
        }
    }
    text.shrink_to_fit();
    Ok(text.into())
}

/// Indents JSON on request, and for browsers and curl.
fn pretty(body: Bytes, media: MediaType, request: &Request) -> Bytes {
    let wanted = negotiate::wants_pretty(&request.parts.headers, &request.info.query);
    match media == MediaType::Json && wanted {
        true => indented(body.trim_ascii_end()).into(),
        false => body,
    }
}

fn respond(media: &'static str, body: Bytes) -> Response {
    let mut response = http::Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
