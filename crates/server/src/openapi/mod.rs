//! OpenAPI documents: `/openapi/v2` and `/openapi/v3`.
//!
//! Documents are derived from resources and schemas on request, one at a time, and kept compressed while there is room;
//! none is made at start. Their hashes are computed from their sources, so that the index needs no document.

mod component;
mod definition;
mod descriptions;
mod document;
mod facts;
mod hash;
mod naming;
mod operation;
mod operation_id;
mod remote;
#[cfg(test)]
mod tests;
mod tree;
mod v2;
mod v2_protobuf;
mod v3;

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::{HeaderValue, StatusCode, header};
use kevel_api::value::{Map, Value};
use kevel_codec::json;

pub use self::remote::{Remote, RemoteDocuments};

use self::document::{Document, make};
use self::hash::Hashes;
use crate::body::Body;
use crate::discovery::documents::Snapshot;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::resource::Resources;

/// Limit on the bytes of kept documents, compressed.
const KEPT_BYTES: usize = 1 << 20;

/// Filter that serves OpenAPI documents, and passes other requests on.
pub struct OpenApi {
    tables: Vec<Arc<Resources>>,
    about: Arc<About>,
    /// Documents of aggregated servers.
    remote: Option<Arc<dyn Remote>>,
    /// Latest resources, with the hashes of their documents.
    current: ArcSwapOption<Current>,
    kept: Mutex<VecDeque<(Document, String, Bytes)>>,
    /// Held while a document is made, one at a time: it takes a processor and some megabytes.
    making: tokio::sync::Mutex<()>,
}

/// Facts of the server in documents, besides its kinds.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Version of the server.
    pub version: String,
    /// Plain paths that are documented though they belong to no API group.
    pub plain: Vec<PlainDocument>,
    /// Leaves out the values of enumerations (`OpenAPIEnums` is off).
    pub without_enums: bool,
}

/// A path that serves a document without a schema by GET.
#[derive(Clone, Copy, Debug)]
pub struct PlainDocument {
    /// Path of the document.
    pub path: &'static str,
    /// Name of the operation.
    pub operation: &'static str,
    /// Media type of the document.
    pub media: &'static str,
    /// Description.
    pub description: &'static str,
}

impl PlainDocument {
    /// Name of its OpenAPI 3 document.
    fn name(&self) -> &'static str {
        self.path.trim_matches('/')
    }
}

#[derive(Debug)]
struct Current {
    snapshot: Snapshot,
    hashes: Hashes,
    remote: Arc<RemoteDocuments>,
    /// ETag of all documents, those of aggregated servers included.
    tag: String,
}

impl std::fmt::Debug for OpenApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenApi").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl OpenApi {
    /// OpenAPI documents of the servers of a chain, in its order.
    pub fn new(tables: Vec<Arc<Resources>>) -> Self {
        OpenApi {
            tables,
            about: Arc::default(),
            remote: None,
            current: ArcSwapOption::empty(),
            kept: Mutex::default(),
            making: tokio::sync::Mutex::default(),
        }
    }

    /// Sets the server's version and the plain paths.
    pub fn with_about(self, about: About) -> Self {
        OpenApi { about: Arc::new(about), ..self }
    }

    /// Adds the documents of aggregated servers.
    pub fn with_remote(self, remote: Arc<dyn Remote>) -> Self {
        OpenApi { remote: Some(remote), ..self }
    }

    /// The aggregated server's document that a request asks for, if it is one.
    fn elsewhere(&self, request: &Request) -> Option<(&Arc<dyn Remote>, String)> {
        let remote = self.remote.as_ref()?;
        let name = request.info.path.strip_prefix("/openapi/v3/")?;
        let current = self.current();
        let theirs = current.hashes.of(name).is_none() && current.remote.v3.contains_key(name);
        theirs.then(|| (remote, name.to_owned()))
    }

    async fn answer(&self, request: &Request) -> Option<Response> {
        let path = request.info.path.strip_prefix("/openapi/")?;
        let accept = request.header(header::ACCEPT);
        let (version, name) = path.split_once('/').unzip();
        match (version.unwrap_or(path), name) {
            ("v2", None) => {
                let (media, document) = accepted(accept, &V2_OFFERS)?;
                let Some(document) = document else { return Some(not_acceptable()) };
                let current = self.current();
                let hash = current.tag.clone();
                Some(self.serve(current, document, media, &hash, request).await)
            }
            ("v3", None) => Some(self.root(request)),
            ("v3", Some(name)) => {
                let current = self.current();
                let Some(hash) = current.hashes.of(name).map(str::to_owned) else {
                    return Some(with_status(StatusCode::NOT_FOUND));
                };
                let (media, document) = accepted(accept, &V3_OFFERS)?;
                let Some(_) = document else { return Some(not_acceptable()) };
                let asked = kevel_registry::query::first(&request.info.query, "hash");
                if asked.is_some_and(|asked| !asked.is_empty() && asked != hash) {
                    return Some(moved(&relative_url(name, &hash)));
                }
                let immutable = asked.is_some_and(|asked| !asked.is_empty());
                let document = Document::V3(name.to_owned());
                let mut response = self.serve(current, document, media, &hash, request).await;
                if immutable {
                    set(&mut response, header::CACHE_CONTROL, "public, immutable");
                    set(
                        &mut response,
                        header::EXPIRES,
                        &httpdate::fmt_http_date(request.clock().now() + YEAR),
                    );
                }
                Some(response)
            }
            _ => None,
        }
    }

    /// `/openapi/v3`: index of the documents, each with its hash.
    fn root(&self, request: &Request) -> Response {
        let current = self.current();
        let own = current.hashes.all();
        let own = own.map(|(name, hash)| (name.to_owned(), relative_url(name, hash)));
        let mut all = current.remote.v3.clone();
        all.extend(own);
        let paths = all.into_iter().map(|(name, url)| {
            let url = Value::from(url.as_str());
            (name, Value::Map(Map::from_iter([("serverRelativeURL", url)])))
        });
        let root = Map::from_iter([("paths", Value::Map(paths.collect()))]);
        let mut body = Vec::new();
        json::encode_any(&Value::Map(root), &mut body);
        let mut response = match is_known(request, &current.tag) {
            true => not_modified(),
            false => http::Response::new(Body::from(body)),
        };
        // The content type that Go detects for the reference's response; clients ignore it.
        set(&mut response, header::CONTENT_TYPE, "text/plain; charset=utf-8");
        set(&mut response, header::ETAG, &format!("\"{}\"", current.tag));
        response
    }

    async fn serve(
        &self,
        current: Arc<Current>,
        document: Document,
        media: &'static str,
        hash: &str,
        request: &Request,
    ) -> Response {
        let mut response = if is_known(request, hash) {
            not_modified()
        } else {
            let Some(packed) = self.packed(current, document, hash).await else {
                return failed();
            };
            match request.header(header::ACCEPT_ENCODING).contains("gzip") {
                true => {
                    let mut response = http::Response::new(Body::from(packed));
                    set(&mut response, header::CONTENT_ENCODING, "gzip");
                    response
                }
                false => http::Response::new(Body::from(unpack(&packed))),
            }
        };
        set(&mut response, header::CONTENT_TYPE, media);
        set(&mut response, header::ETAG, &format!("\"{hash}\""));
        set(&mut response, header::VARY, "Accept, Accept-Encoding");
        response
    }

    /// A document, compressed: kept or made now.
    async fn packed(&self, current: Arc<Current>, document: Document, hash: &str) -> Option<Bytes> {
        if let Some(kept) = self.kept(&document, hash) {
            return Some(kept);
        }
        let _making = self.making.lock().await;
        // Another request may have made the document meanwhile.
        if let Some(kept) = self.kept(&document, hash) {
            return Some(kept);
        }
        let wanted = document.clone();
        let about = self.about.clone();
        let made = tokio::task::spawn_blocking(move || {
            pack(&make(&current.snapshot, &about, &current.remote.v2, &wanted))
        });
        let packed = made.await.ok()?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, ..)| *known != document);
        kept.push_front((document, hash.to_owned(), packed.clone()));
        let mut room = KEPT_BYTES;
        kept.retain(|(.., bytes)| {
            let fits = bytes.len() <= room;
            room = room.saturating_sub(bytes.len());
            fits
        });
        Some(packed)
    }

    fn kept(&self, document: &Document, hash: &str) -> Option<Bytes> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let position = kept.iter().position(|(known, of, _)| known == document && of == hash)?;
        let found = kept.remove(position)?;
        let bytes = found.2.clone();
        kept.push_front(found);
        Some(bytes)
    }

    /// The current resources and hashes.
    fn current(&self) -> Arc<Current> {
        let rows: Vec<_> = self.tables.iter().map(|table| table.current()).collect();
        let known = self.current.load_full();
        let remote = self.remote.as_ref().map(|remote| remote.current());
        if let Some(known) = &known
            && known.snapshot.is_of(rows.iter().map(|rows| &**rows))
            && remote.as_ref().is_none_or(|remote| Arc::ptr_eq(remote, &known.remote))
        {
            return known.clone();
        }
        let snapshot = Snapshot::new(rows.iter().map(|rows| Arc::clone(rows)).collect());
        let hashes =
            Hashes::new(&snapshot, &self.about, known.as_deref().map(|known| &known.hashes));
        let remote = remote.unwrap_or_default();
        let tag = hashes.with(&remote.tag);
        let current = Arc::new(Current { snapshot, hashes, remote, tag });
        self.current.store(Some(current.clone()));
        current
    }
}

impl Filter for OpenApi {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        Box::pin(async move {
            if let Some((remote, name)) = self.elsewhere(&request) {
                return remote.serve(&name, request).await;
            }
            match self.answer(&request).await {
                Some(response) => response,
                None => next.handle(request).await,
            }
        })
    }
}

const JSON: &str = "application/json";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// An accepted media type, its document, and the Content-Type.
type Offer = (&'static str, Document, &'static str);

const V2_OFFERS: [Offer; 3] = [
    (JSON, Document::V2Json, JSON),
    (V2_PROTOBUF, Document::V2Protobuf, V2_PROTOBUF),
    (
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        Document::V2Protobuf,
        V2_PROTOBUF,
    ),
];
const V3_OFFERS: [Offer; 1] = [(JSON, Document::V3(String::new()), JSON)];

/// The offer that the client prefers; no document if it accepts none of them.
fn accepted(header: &str, offers: &[Offer]) -> Option<(&'static str, Option<Document>)> {
    let header = if header.trim().is_empty() { "*/*" } else { header };
    let mut clauses: Vec<(f32, &str)> = header
        .split(',')
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            (weight.and_then(|q| q.parse().ok()).unwrap_or(1.0), name)
        })
        .collect();
    clauses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    for (_, clause) in clauses {
        let fits = |name: &str| matches!(clause, "*/*" | "application/*") || clause == name;
        if let Some((_, document, media)) = offers.iter().find(|(name, ..)| fits(name)) {
            return Some((media, Some(document.clone())));
        }
    }
    Some((JSON, None))
}

fn relative_url(name: &str, hash: &str) -> String {
    format!("/openapi/v3/{name}?hash={hash}")
}

fn pack(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

/// Bytes decompressed between two charges.
const UNPACKED: u64 = 64 << 10;

fn unpack(packed: &[u8]) -> Vec<u8> {
    let (mut bytes, mut decoder) = (Vec::new(), GzDecoder::new(packed));
    // In parts: documents have megabytes.
    while let Ok(1..) = decoder.by_ref().take(UNPACKED).read_to_end(&mut bytes) {
        kevel_compute::charge_bytes(UNPACKED as usize);
    }
    bytes
}

fn is_known(request: &Request, hash: &str) -> bool {
    let known = request.header(header::IF_NONE_MATCH);
    known.split(',').any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.trim_start_matches("W/").trim_matches('"') == hash
    })
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn with_status(status: StatusCode) -> Response {
    let mut response = http::Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn not_modified() -> Response {
    with_status(StatusCode::NOT_MODIFIED)
}

fn not_acceptable() -> Response {
    with_status(StatusCode::NOT_ACCEPTABLE)
}

fn failed() -> Response {
    with_status(StatusCode::INTERNAL_SERVER_ERROR)
}

fn moved(to: &str) -> Response {
    let mut response = with_status(StatusCode::MOVED_PERMANENTLY);
    set(&mut response, header::LOCATION, to);
    response
}
