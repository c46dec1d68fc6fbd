//! The items of a list, written as they are sent: what waits for a client to read on is a piece, however
//! long the list is.

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
use crate::resource::Resource;
use crate::responses::{encode, respond};
use crate::storage::Storage;
use crate::type_ref::TypeRef;

/// An answer that is no larger is made at once, with its length. What is wrong with an item is told only
/// until then.
const WHOLE: usize = 128 << 10;

/// Stands in for the items where what is around them is written.
const PLACEHOLDER: &str = "ITEMS-OF-THE-LIST";

/// A list on its way.
pub(super) struct ListPieces {
    /// What stands before the items; what has been written and not sent yet.
    head: Vec<u8>,
    tail: Vec<u8>,
    items: std::vec::IntoIter<Arc<Object>>,
    writer: ItemWriter,
    /// How many bytes there are at least.
    size: u64,
    first: bool,
    done: bool,
}

/// How an item is written.
pub(super) enum ItemWriter {
    /// As it is kept, behind what it begins with.
    Wire(Bytes),
    Tree(Trees),
}

/// Items that must be looked into: for other formats, versions and shapes.
pub(super) struct Trees {
    pub resource: Arc<Resource>,
    pub storage: Arc<Storage>,
    pub accepted: Accepted,
    pub shape: ItemShape,
}

/// What becomes of an item.
pub(super) enum ItemShape {
    Whole,
    Row(Arc<Printer>, MicroTime),
    /// The version of `meta.k8s.io`.
    Metadata(String),
}

impl ListPieces {
    /// A list of which items can be sent as they are kept, so many bytes.
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

    /// Writes on until there are so many bytes, or no more items.
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
    /// The answer: `frame` makes the list around its items.
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

    /// The answer in protobuf, which says how long it is before it begins.
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

    /// The answer at once if it is small, in pieces if not.
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

    /// The response for items that are found out.
    pub fn whole(
        self,
        items: Vec<Value>,
        frame: impl Fn(thin_vec::ThinVec<Value>) -> Value,
        ty: Option<&TypeRef>,
    ) -> Result<Response, StatusError> {
        let items: Result<_, _> = items.into_iter().map(|item| self.shaped(item)).collect();
        encode(StatusCode::OK, &frame(items?), ty.map(TypeRef::schema), &self.accepted)
    }

    /// Bytes before and behind a number of items.
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
            // A list of one.
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

    /// The tree of an object, in the version that rows are made of, or that of the request.
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
                // The kind of a typed list's items goes without saying.
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
                // No text of JSON has a line break in it: these are between its parts.
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
