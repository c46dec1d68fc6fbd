//! Streaming of a list's items: at most one piece is buffered for a client, however long the list is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::StatusCode;
use kevel_api::schema::Schema;
use kevel_api::status::StatusError;
use kevel_api::time::MicroTime;
use kevel_api::value::Value;
use kevel_codec::{cbor, json, protobuf, yaml};
use kevel_store::cache::Object;

use super::table::{self, Printer};
use crate::body::{Body, Broken, HEADROOM, PIECE, Piece, Pieces};
use crate::handler::Response;
use crate::negotiate::{Accepted, MediaType};
use crate::responses::{encode, respond};
use kevel_registry::resource::Resource;
use kevel_registry::storage::Storage;
use kevel_registry::type_ref::TypeRef;

/// Largest response that is written at once, with a content length. Only until then can an item's error still become
/// the response's status.
const WHOLE: usize = 128 << 10;

/// Stands for the items while the bytes around them are encoded.
const PLACEHOLDER: &str = "ITEMS-OF-THE-LIST";

/// Body of a list response.
pub(super) struct ListPieces {
    /// Bytes before the items; then bytes written and not sent yet.
    head: Vec<u8>,
    tail: Vec<u8>,
    items: std::vec::IntoIter<Arc<Object>>,
    writer: ItemWriter,
    /// Lower bound of the body's size in bytes.
    size: u64,
    first: bool,
    done: bool,
}

/// Encoding of an item.
pub(super) enum ItemWriter {
    /// Stored wire bytes, after this prefix.
    Wire(Bytes),
    Tree(Trees),
}

/// Converter of items that are decoded: for other formats, versions and shapes than the stored bytes have.
pub(super) struct Trees {
    pub resource: Arc<Resource>,
    pub storage: Arc<Storage>,
    pub accepted: Accepted,
    pub shape: ItemShape,
}

/// Shape of an item in the response.
pub(super) enum ItemShape {
    Whole,
    Row(Arc<Printer>, MicroTime),
    /// The version of `meta.k8s.io`.
    Metadata(String),
}

impl ListPieces {
    /// A list whose items are sent as stored; `size` is its number of bytes.
    pub fn wire(
        (head, tail): (Vec<u8>, Vec<u8>),
        items: Vec<Arc<Object>>,
        prefix: Bytes,
        size: u64,
    ) -> Self {
        let writer = ItemWriter::Wire(prefix);
        ListPieces { head, tail, items: items.into_iter(), writer, size, first: true, done: false }
    }

    pub fn response(self) -> Response {
        respond(StatusCode::OK, MediaType::Json.name(), Body::pieces(self))
    }

    /// Writes items until `out` has `most` bytes or no items are left.
    fn write(&mut self, out: &mut Vec<u8>, most: usize) -> Result<(), StatusError> {
        while out.len() < most && !self.done {
            let Some(item) = self.items.next() else {
                out.append(&mut self.tail);
                self.done = true;
                break;
            };
            if !std::mem::take(&mut self.first) {
                out.extend_from_slice(self.writer.separator());
            }
            self.writer.write(&item, out)?;
        }
        Ok(())
    }
}

impl Pieces for ListPieces {
    fn poll_piece(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Piece>> {
        let head = std::mem::take(&mut self.head);
        if self.done && head.is_empty() {
            return Poll::Ready(None);
        }
        let mut piece = Vec::with_capacity(HEADROOM + PIECE.max(head.len()) + (8 << 10));
        piece.resize(HEADROOM, 0);
        piece.extend_from_slice(&head);
        if self.write(&mut piece, HEADROOM + PIECE).is_err() {
            self.done = true;
            return Poll::Ready(Some(Err(Broken("an object cannot be read"))));
        }
        Poll::Ready(Some(Ok(Bytes::from(piece).slice(HEADROOM..))))
    }

    fn at_least(&self) -> u64 {
        self.size
    }
}

impl ItemWriter {
    fn separator(&self) -> &'static [u8] {
        match self {
            ItemWriter::Wire(_) => b",",
            ItemWriter::Tree(trees) => match trees.accepted.media {
                MediaType::Json if trees.accepted.pretty => b",\n    ",
                MediaType::Json => b",",
                MediaType::Yaml | MediaType::Protobuf | MediaType::Cbor => b"",
            },
        }
    }

    fn write(&self, item: &Object, out: &mut Vec<u8>) -> Result<(), StatusError> {
        let wire = item.wire().map_err(StatusError::internal)?;
        match self {
            ItemWriter::Wire(prefix) => {
                out.extend_from_slice(prefix);
                out.extend_from_slice(wire.get(1..).unwrap_or_default());
                Ok(())
            }
            ItemWriter::Tree(trees) => trees.write(trees.served(wire)?, out),
        }
    }
}

impl Trees {
    /// The response; `frame` makes the list object around its items.
    pub fn response(
        self,
        items: Vec<Arc<Object>>,
        frame: impl Fn(thin_vec::ThinVec<Value>) -> Value,
        ty: Option<&TypeRef>,
    ) -> Result<Response, StatusError> {
        let schema = ty.map(TypeRef::schema);
        if items.is_empty() {
            return encode(StatusCode::OK, &frame(Default::default()), schema, &self.accepted);
        }
        if let (MediaType::Protobuf, Some(schema)) = (self.accepted.media, schema) {
            return self.protobuf(items, &frame(Default::default()), schema);
        }
        let media = self.accepted.media.name();
        let (head, tail) = self.around(&frame, schema, items.len())?;
        self.streamed(head, tail, items, media)
    }

    /// The response in protobuf, where lengths come before contents.
    fn protobuf(
        self,
        items: Vec<Arc<Object>>,
        list: &Value,
        schema: Schema<'_>,
    ) -> Result<Response, StatusError> {
        let (mut whole, mut item, mut size) = (Vec::new(), Vec::new(), 0);
        for object in &items {
            item.clear();
            let wire = object.wire().map_err(StatusError::internal)?;
            self.write(self.served(wire)?, &mut item)?;
            size += item.len();
            match size <= WHOLE {
                true => whole.extend_from_slice(&item),
                false => whole = Vec::new(),
            }
        }
        let (mut head, tail) = protobuf::encode_list(list, schema, size);
        let media = MediaType::Protobuf.name();
        if size <= WHOLE {
            head.append(&mut whole);
            head.extend_from_slice(&tail);
            return Ok(respond(StatusCode::OK, media, head));
        }
        self.streamed(head, tail, items, media)
    }

    /// The response: at once if it is small, streamed if not.
    fn streamed(
        self,
        head: Vec<u8>,
        tail: Vec<u8>,
        items: Vec<Arc<Object>>,
        media: &'static str,
    ) -> Result<Response, StatusError> {
        let (items, writer) = (items.into_iter(), ItemWriter::Tree(self));
        let (size, first, done) = (WHOLE as u64 + 1, true, false);
        let mut begin = head;
        let head = Vec::new();
        let mut list = ListPieces { head, tail, items, writer, size, first, done };
        list.write(&mut begin, WHOLE)?;
        if list.done && begin.len() <= WHOLE {
            return Ok(respond(StatusCode::OK, media, begin));
        }
        list.head = begin;
        Ok(respond(StatusCode::OK, media, Body::pieces(list)))
    }

    /// The response for computed items of a `Lister`.
    pub fn whole(
        self,
        items: Vec<Value>,
        frame: impl Fn(thin_vec::ThinVec<Value>) -> Value,
        ty: Option<&TypeRef>,
    ) -> Result<Response, StatusError> {
        let items: Result<_, _> = items.into_iter().map(|item| self.shaped(item)).collect();
        encode(StatusCode::OK, &frame(items?), ty.map(TypeRef::schema), &self.accepted)
    }

    /// The bytes before and after `count` items.
    fn around(
        &self,
        frame: impl Fn(thin_vec::ThinVec<Value>) -> Value,
        schema: Option<Schema<'_>>,
        count: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), StatusError> {
        let list = frame([Value::from(PLACEHOLDER)].into_iter().collect());
        let text = encode(StatusCode::OK, &list, schema, &self.accepted)?;
        let text = text.body().bytes().unwrap_or_default();
        let mut placeholder = Vec::new();
        match self.accepted.media {
            MediaType::Yaml => placeholder.extend(format!("- {PLACEHOLDER}\n").into_bytes()),
            // A list of one item.
            MediaType::Cbor => {
                let list = Value::List([Value::from(PLACEHOLDER)].into_iter().collect());
                cbor::encode_any(&list, &mut placeholder);
            }
            _ => placeholder.extend(format!("\"{PLACEHOLDER}\"").into_bytes()),
        }
        let found = text.windows(placeholder.len()).position(|at| at == placeholder);
        let at = found.ok_or_else(|| StatusError::internal("a list has no place for items"))?;
        let (head, rest) = text.split_at(at);
        let mut head = head.to_vec();
        if self.accepted.media == MediaType::Cbor {
            cbor::encode_array_head(count, &mut head);
        }
        Ok((head, rest.get(placeholder.len()..).unwrap_or_default().to_vec()))
    }

    /// Decodes an object, in the stored version for rows and else in the requested version.
    fn served(&self, wire: &Bytes) -> Result<Value, StatusError> {
        let value = self.storage.read(wire).map_err(StatusError::internal)?;
        let row = matches!(self.shape, ItemShape::Row(..));
        let as_stored = row && !self.resource.columns.per_version();
        if as_stored || self.storage.shows(wire, &self.resource.kind) {
            return Ok(value);
        }
        let to = self.resource.kind.group_version();
        let served = self.storage.convert_at_once(value, &self.storage.kind, &to);
        served.ok_or_else(|| StatusError::internal("the object has no such version"))
    }

    /// An object in the shape that the client accepts.
    fn shaped(&self, mut object: Value) -> Result<Value, StatusError> {
        match &self.shape {
            ItemShape::Row(printer, now) => printer.row(object, *now),
            ItemShape::Metadata(version) => {
                Ok(table::metadata_only(object, version, &self.resource))
            }
            ItemShape::Whole => {
                // Items of a typed list have no kind and apiVersion.
                let typed = !self.resource.ty.is_unstructured();
                if let Some(map) = object.as_map_mut().filter(|_| typed) {
                    map.remove("kind");
                    map.remove("apiVersion");
                }
                Ok(object)
            }
        }
    }

    fn write(&self, object: Value, out: &mut Vec<u8>) -> Result<(), StatusError> {
        let value = self.shaped(object)?;
        let ty = match &self.shape {
            ItemShape::Whole => self.resource.ty.clone(),
            ItemShape::Row(..) => table::ROW.clone(),
            ItemShape::Metadata(_) => table::METADATA.clone(),
        };
        let mut text = Vec::with_capacity(2048);
        match self.accepted.media {
            MediaType::Protobuf => {
                protobuf::encode_item(&value, ty.schema(), out);
                return Ok(());
            }
            MediaType::Cbor => {
                cbor::encode(&value, ty.schema(), out);
                return Ok(());
            }
            _ => json::encode(&value, ty.schema(), &mut text),
        }
        match self.accepted.media {
            MediaType::Yaml => {
                let text = [b"[", &text[..], b"]"].concat();
                yaml::from_json(&text, out).map_err(StatusError::internal)?;
            }
            _ if self.accepted.pretty => {
                let mut pretty = Vec::with_capacity(text.len() * 2);
                json::indent(&text, &mut pretty);
                // JSON strings contain no line breaks, so every break is between tokens and can be indented.
                for line in pretty.split_inclusive(|byte| *byte == b'\n') {
                    out.extend_from_slice(line);
                    if line.ends_with(b"\n") {
                        out.extend_from_slice(b"    ");
                    }
                }
            }
            _ => out.append(&mut text),
        }
        Ok(())
    }
}
