//! Watch requests: events as they happen, several in one write where they coincide.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_codec::{cbor, json, protobuf};
use kevel_store::Revision;
use kevel_store::cache::{At, CacheError, Change, Delivery, EncoderId, Object};
use kevel_trace::TraceSpan;

use super::table::{Include, Printer};
use super::watch_stream::Stream;
use super::{StoredRequest, websocket};
use crate::body::Body;
use crate::flowcontrol::WatchHold;
use crate::handler::Response;
use crate::metrics::WatchEvents;
use crate::negotiate::{MediaType, Shape};
use crate::responses::{cbor_document, respond};
use kevel_registry::failure::cache_error;
use kevel_registry::resource::Resource;
use kevel_registry::storage::Storage;
use kevel_registry::store::{WatchStart, lost};
use kevel_registry::type_ref::TypeRef;

/// Duration of a watch without a timeout.
const NO_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Type of the event of an object that is gone.
const DELETED: &str = "DELETED";

/// Annotation of the bookmark that ends the initial events.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl StoredRequest<'_> {
    pub(super) async fn watch(self) -> Result<Response, StatusError> {
        let selection = self.selection()?;
        let options = self.list_options()?;
        let (bookmarks, initial) = (options.allow_watch_bookmarks, options.send_initial_events);
        let revision = self.plain_revision()?;
        let start = match (initial, revision) {
            // Streaming list: the current state first, ended by a bookmark.
            (Some(true), Some(revision)) if revision.0 != 0 => {
                WatchStart::State(At::NotOlderThan(revision))
            }
            (Some(true) | None, None) => WatchStart::State(At::Consistent),
            (Some(true) | None, Some(Revision(0))) => WatchStart::State(At::Any),
            (_, Some(revision)) if revision.0 != 0 => WatchStart::After(revision),
            _ => WatchStart::Now,
        };
        let (snapshot, watcher) = self.store().watch(selection.cached, start).await?;
        let encoder = Encoder::new(&self)?;
        let media = self.accepted.media.stream_name();
        let stream = Stream::new(watcher, encoder, self.timeout()?).selecting(selection.of_version);
        let stream = if bookmarks { stream.with_bookmarks() } else { stream };
        let stream = match snapshot {
            // A watch from 0 or unset begins with the state even without `sendInitialEvents`, and gets the bookmark at
            // its end.
            Some(snapshot) => stream.beginning_with(snapshot, bookmarks && initial != Some(false)),
            None => stream,
        };
        let stream = stream.with_seats(WatchHold::take(&self.request.parts));
        let stream = stream.with_spans(self.initial_spans(media));
        let body = Body::pieces(stream.pieces());
        let response = respond(StatusCode::OK, media, body);
        let headers = &self.request.parts.headers;
        Ok(match self.request.is_websocket() {
            true => websocket::watch(headers, self.accepted.media, response),
            false => response,
        })
    }

    /// Spans of the state that a watch begins with, if they are recorded: of its encoding, and of the request until then.
    fn initial_spans(&self, media: &str) -> Option<[TraceSpan; 2]> {
        if !self.span.is_recording() {
            return None;
        }
        let start = || kevel_trace::start("WatchServer.HandleHTTP", || self.response_fields(media));
        let serving = self.span.in_scope(start);
        serving.event("About to start writing response");
        Some([serving, self.span.share()])
    }

    fn timeout(&self) -> Result<Duration, StatusError> {
        Ok(match self.list_options()?.timeout_seconds {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds as u64),
            _ => match self.endpoints.min_request_timeout {
                Duration::ZERO => NO_TIMEOUT,
                // Random, so that clients that connected together do not reconnect together.
                least => least + least.mul_f64(spread()),
            },
        })
    }
}

/// A random number from 0 to 1.
fn spread() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    let hasher = std::collections::hash_map::RandomState::new().build_hasher();
    (hasher.finish() >> 11) as f64 / (1u64 << 53) as f64
}

/// Encodes watch events in the version, shape and media type that the client accepts.
pub(super) struct Encoder {
    resource: Arc<Resource>,
    storage: Arc<Storage>,
    media: MediaType,
    shape: Shape,
    /// Printer of the rows, if Tables are requested.
    printer: Option<Printer>,
    /// Whether the next Table has column definitions, as only the first of a watch does.
    headers: bool,
    /// Key under which encoded events are shared with other watchers.
    id: EncoderId,
    /// Like `id`, for Tables with column definitions.
    id_with_headers: EncoderId,
    prefix: String,
    sent: Option<WatchEvents>,
}

impl Encoder {
    fn new(request: &StoredRequest<'_>) -> Result<Self, StatusError> {
        if request.accepted.media == MediaType::Yaml {
            let types = crate::negotiate::stream_types(request.resource.conventions.cbor);
            return Err(StatusError::not_acceptable(types));
        }
        let printer = match &request.accepted.shape {
            Shape::Table(version) => Some(Printer::new(request, version)?),
            _ => None,
        };
        let (shape, meta) = match &request.accepted.shape {
            Shape::Whole => ("Whole", ""),
            Shape::Metadata(meta) | Shape::MetadataList(meta) => ("Metadata", meta.as_str()),
            Shape::Table(meta) => match printer.as_ref().map(|printer| printer.include) {
                Some(Include::None) => ("TableOfNone", meta.as_str()),
                Some(Include::Object) => ("TableOfObjects", meta.as_str()),
                _ => ("TableOfMetadata", meta.as_str()),
            },
        };
        // The prefix names the version, which tells versions of one kind apart.
        let prefix = request.kind_prefix();
        let media = request.accepted.media.name();
        let id = |headers: &str| {
            EncoderId::from([media, shape, meta, headers, prefix.as_str()].join("\n"))
        };
        Ok(Encoder {
            resource: request.resource.clone(),
            storage: request.storage.clone(),
            media: request.accepted.media,
            shape: request.accepted.shape.clone(),
            headers: printer.is_some(),
            printer,
            id: id(""),
            id_with_headers: id("headers"),
            prefix,
            sent: WatchEvents::of(&request.request.parts).cloned(),
        })
    }

    /// Converts the next objects in one call of the conversion webhook. Errors are reported later, with each object.
    pub(super) async fn prepare(&self, objects: &[Arc<Object>]) {
        if self.storage.converts_remotely() {
            let to = self.resource.kind.group_version();
            let readable = objects.iter().filter(|object| object.wire().is_ok()).cloned();
            let _ = self.storage.converted(readable.collect(), &to).await;
        }
    }

    pub(super) async fn initial(&mut self, object: &Object, out: &mut Vec<u8>) {
        let before = out.len();
        match self.remote(object) {
            true => self.converted("ADDED", object, out).await,
            false => self.object("ADDED", object, out),
        }
        self.sent(out.len() - before);
    }

    /// Counts a sent event of so many bytes.
    fn sent(&mut self, bytes: usize) {
        self.headers = false;
        if let Some(sent) = &self.sent {
            sent.sent(bytes);
        }
    }

    /// Encodes an event; its bytes are shared by all watchers with the same encoding.
    pub(super) async fn event(&mut self, delivery: &Delivery) -> Bytes {
        let Some(object) = delivery.event.object(delivery.change) else { return Bytes::new() };
        let name = match delivery.change {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => DELETED,
        };
        if self.remote(object) {
            let mut frame = Vec::new();
            self.converted(name, object, &mut frame).await;
            self.sent(frame.len());
            return frame.into();
        }
        let id = if self.headers { &self.id_with_headers } else { &self.id };
        let encoded = delivery.event.encoded(id, delivery.change, || {
            let mut frame = Vec::new();
            self.object(name, object, &mut frame);
            frame.into()
        });
        self.sent(encoded.len());
        encoded
    }

    fn object(&self, event: &str, object: &Object, out: &mut Vec<u8>) {
        let wire = match object.wire() {
            Ok(wire) => wire,
            Err(error) => {
                let status = lost(object).filter(|_| event == DELETED);
                return self.status(status.unwrap_or_else(|| StatusError::internal(error)), out);
            }
        };
        let plain = self.media == MediaType::Json
            && self.shape == Shape::Whole
            && self.storage.shows(wire, &self.resource.kind);
        if plain {
            out.reserve(wire.len() + self.prefix.len() + 40);
            out.extend_from_slice(format!(r#"{{"type":"{event}","object":"#).as_bytes());
            out.extend_from_slice(self.prefix.as_bytes());
            out.extend_from_slice(wire.get(1..).unwrap_or_default());
            out.extend_from_slice(b"}\n");
            return;
        }
        let to = self.resource.kind.group_version();
        let as_stored = self.printer.is_some() && !self.resource.columns.per_version();
        let value = self.storage.read(wire).and_then(|value| match as_stored {
            true => Ok(value),
            false => {
                let converted = self.storage.convert_at_once(value, &self.storage.kind, &to);
                converted.ok_or_else(|| "the object has no such version".to_owned())
            }
        });
        match value {
            Ok(value) => self.value(event, value, out),
            Err(error) => self.status(StatusError::internal(error), out),
        }
    }

    /// Whether a conversion webhook must convert the object to the requested version.
    fn remote(&self, object: &Object) -> bool {
        let shown = |wire: &Bytes| self.storage.shows(wire, &self.resource.kind);
        self.storage.converts_remotely() && object.wire().is_ok_and(|wire| !shown(wire))
    }

    /// Like [`Encoder::object`], for an object that a conversion webhook converts.
    async fn converted(&self, event: &str, object: &Object, out: &mut Vec<u8>) {
        let to = self.resource.kind.group_version();
        let value = match object.wire() {
            Ok(wire) => self.storage.read_in(wire, &to).await,
            Err(error) => Err(StatusError::internal(error)),
        };
        match value {
            Ok(value) => self.value(event, value, out),
            Err(error) => self.status(error, out),
        }
    }

    fn value(&self, event: &str, value: Value, out: &mut Vec<u8>) {
        let (value, ty) = match &self.shape {
            Shape::Whole => (value, self.resource.ty.clone()),
            Shape::Metadata(version) | Shape::MetadataList(version) => {
                let metadata = super::table::metadata_only(value, version, &self.resource);
                (metadata, super::table::METADATA.clone())
            }
            Shape::Table(_) => {
                let Some(printer) = &self.printer else { return };
                match printer.event(value, self.headers) {
                    Ok(table) => (table, super::table::TABLE.clone()),
                    Err(error) => return self.status(error, out),
                }
            }
        };
        self.typed(event, &value, &ty, out);
    }

    fn typed(&self, event: &str, value: &Value, ty: &TypeRef, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        match self.media {
            MediaType::Protobuf => bytes = protobuf::encode_object(value, ty.schema()),
            MediaType::Cbor => bytes = cbor_document(value, Some(ty.schema())),
            _ => json::encode(value, ty.schema(), &mut bytes),
        }
        self.frame(event, bytes, out);
    }

    /// Wraps an encoded object in a watch event.
    fn frame(&self, event: &str, object: Vec<u8>, out: &mut Vec<u8>) {
        match self.media {
            MediaType::Protobuf => {
                let message = watch_event_message(event, &object);
                out.extend_from_slice(&(message.len() as u32).to_be_bytes());
                out.extend_from_slice(&message);
            }
            MediaType::Cbor => write_cbor_event(event, &object, out),
            _ => {
                out.extend_from_slice(format!(r#"{{"type":"{event}","object":"#).as_bytes());
                out.extend_from_slice(&object);
                out.extend_from_slice(b"}\n");
            }
        }
    }

    /// Writes a BOOKMARK event with the revision that the watch has reached.
    pub(super) fn bookmark(&mut self, revision: Revision, initial_end: bool, out: &mut Vec<u8>) {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion", revision.to_string().as_str().into());
        if initial_end {
            let annotations = Map::from_iter([(INITIAL_EVENTS_END, Value::from("true"))]);
            metadata.insert("annotations", annotations.into());
        }
        let value = Value::Map(Map::from_iter([
            ("kind", Value::from(self.resource.kind.kind.as_str())),
            ("apiVersion", self.resource.api_version().as_str().into()),
            ("metadata", metadata.into()),
        ]));
        let before = out.len();
        self.value("BOOKMARK", value, out);
        self.sent(out.len() - before);
        if let Some(sent) = self.sent.as_ref().filter(|_| initial_end) {
            sent.initial_sent();
        }
    }

    pub(super) fn failure(&self, error: CacheError, out: &mut Vec<u8>) {
        if error != CacheError::Closed {
            self.status(cache_error(error), out);
        }
    }

    fn status(&self, error: StatusError, out: &mut Vec<u8>) {
        let text = error.into_status().to_json();
        if !matches!(self.media, MediaType::Protobuf | MediaType::Cbor) {
            return self.frame("ERROR", text, out);
        }
        let Some(schema) = kevel_api::builtin::schema("", "v1", "Status") else { return };
        if let Ok(status) = json::decode(&text, schema, json::Unknown::Ignore) {
            self.typed("ERROR", &status.value, &TypeRef::BuiltIn(schema), out);
        }
    }
}

/// A `metav1.WatchEvent`: its type, and its object as a `RawExtension`.
fn watch_event_message(event: &str, object: &[u8]) -> Vec<u8> {
    let raw = delimited(1, object);
    let mut message = delimited(1, event.as_bytes());
    message.extend(delimited(2, &raw));
    message
}

/// Writes a watch event in CBOR: a map with `type` and `object`, where the object keeps its self-described tag.
fn write_cbor_event(event: &str, object: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(cbor::SELF_DESCRIBED);
    cbor::encode_map_head(2, out);
    for text in ["type", event, "object"] {
        cbor::encode_any(&text.into(), out);
    }
    out.extend_from_slice(object);
}

fn delimited(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 6);
    out.push(tag << 3 | 2);
    let mut rest = bytes.len();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out.extend_from_slice(bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_event_is_a_message_around_an_object() {
        assert_eq!(watch_event_message("ADDED", b"xy"), b"\n\x05ADDED\x12\x04\n\x02xy");
        assert_eq!(delimited(2, &[0; 300])[..3], [0x12, 0xac, 0x02]);
        let mut event = Vec::new();
        write_cbor_event("ADDED", b"\xd9\xd9\xf7\xa0", &mut event);
        assert_eq!(event, b"\xd9\xd9\xf7\xa2\x44type\x45ADDED\x46object\xd9\xd9\xf7\xa0");
    }

    #[test]
    fn watches_do_not_end_together() {
        assert!((0.0..1.0).contains(&spread()) && spread() != spread());
    }
}
