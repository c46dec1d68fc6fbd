//! List requests: responses joined from the objects' wire bytes and streamed.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use kevel_api::status::StatusError;
use kevel_api::time::MicroTime;
use kevel_api::value::{Map, Value};
use kevel_store::Revision;
use kevel_store::cache::{At, Object, Selection};

use super::StoredRequest;
use super::list_pieces::{ItemShape, ListPieces, Trees};
use super::table::{self, Printer};
use crate::handler::Response;
use crate::negotiate::{MediaType, Shape};
use crate::responses::respond;
use kevel_registry::resource::{Lister, Resource};
use kevel_registry::store::{ContinueToken, ListQuery, Page};
use kevel_registry::type_ref::TypeRef;
use kevel_registry::verb::Verb;

impl StoredRequest<'_> {
    pub(super) async fn list(self) -> Result<Response, StatusError> {
        if let Some(lister) = self.resource.lister.clone() {
            return self.list_found(&*lister).await;
        }
        let page = self.page().await?;
        self.list_response(page).await
    }

    /// The objects selected by selectors, `limit` and `continue`.
    pub(super) async fn page(&self) -> Result<Page, StatusError> {
        let selection = self.selection()?;
        let options = self.list_options()?;
        let limit = usize::try_from(options.limit).unwrap_or(0);
        let token = Some(options.continue_token.as_str()).filter(|token| !token.is_empty());
        let prefix = &selection.cached.prefix;
        let token = token.map(|token| ContinueToken::read(token, prefix)).transpose()?;
        let at = self.list_at(token.as_ref(), limit)?;
        self.store().list(ListQuery { selection, at, limit, token }).await
    }

    /// Freshness of the list, from `resourceVersion`, `resourceVersionMatch` and the continue token.
    fn list_at(&self, token: Option<&ContinueToken>, limit: usize) -> Result<At, StatusError> {
        if let Some(token) = token {
            // Checked before parsing: with a token, even an invalid resourceVersion gets this error.
            if !matches!(self.list_options()?.resource_version.as_str(), "" | "0") {
                return Err(StatusError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            return Ok(token.revision.map_or(At::Consistent, At::Exact));
        }
        let revision = self.revision()?;
        let exact = match self.list_options()?.resource_version_match.as_str() {
            // A limited list continues at its first revision, so it is exact. A deletecollection is listed in pages.
            "" => limit > 0 || self.request.info.verb == Verb::DeleteCollection,
            matching => matching == "Exact",
        };
        Ok(match revision {
            None => At::Consistent,
            Some(Revision(0)) => self.store().any(),
            Some(revision) if exact => At::Exact(revision),
            Some(revision) => At::NotOlderThan(revision),
        })
    }

    pub(super) async fn list_response(&self, page: Page) -> Result<Response, StatusError> {
        let serializing = self.serializing();
        serializing.finish(self.encoded_list(page).await)
    }

    async fn encoded_list(&self, page: Page) -> Result<Response, StatusError> {
        if let Shape::Metadata(_) = self.accepted.shape {
            return Err(self.misfit("PartialObjectMetadata", "a list", "List"));
        }
        let mut size = 0;
        let mut as_served = true;
        for item in &page.items {
            let wire = item.wire().map_err(StatusError::internal)?;
            size += wire.len() as u64;
            as_served &= self.storage.shows(wire, &self.resource.kind);
        }
        let streamed = self.accepted.media == MediaType::Json
            && self.accepted.shape == Shape::Whole
            && !self.accepted.pretty
            && as_served;
        if !streamed {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            kevel_compute::expect(&self.request.meter, size).await;
            return self.list_of_trees(page, as_served).await;
        }
        let (mut head, tail) = self.list_frame(&page);
        if page.items.is_empty() {
            head.extend_from_slice(&tail);
            return Ok(respond(StatusCode::OK, MediaType::Json.name(), head));
        }
        // Each item of an unstructured list has its own kind and apiVersion.
        let prefix = match self.resource.ty.is_unstructured() {
            true => self.kind_prefix().into(),
            false => Bytes::from("{"),
        };
        Ok(ListPieces::wire((head, tail), page.items, prefix, size).response())
    }

    /// The bytes before and after the list's items.
    fn list_frame(&self, page: &Page) -> (Vec<u8>, Vec<u8>) {
        let (kind, version) = (&self.resource.list_kind, self.resource.api_version());
        if self.resource.ty.is_unstructured() {
            // An unstructured list has sorted keys and always a `continue` field.
            let token = page.token.as_deref().unwrap_or_default();
            let remaining = page.remaining.map(|left| format!(r#""remainingItemCount":{left},"#));
            let metadata = format!(
                r#"{{"continue":"{token}",{}"resourceVersion":"{}"}}"#,
                remaining.unwrap_or_default(),
                page.revision
            );
            let head = format!(r#"{{"apiVersion":"{version}","items":["#);
            let tail = format!("],\"kind\":\"{kind}\",\"metadata\":{metadata}}}\n");
            return (head.into_bytes(), tail.into_bytes());
        }
        let mut metadata = format!(r#"{{"resourceVersion":"{}""#, page.revision);
        if let Some(token) = &page.token {
            metadata += &format!(r#","continue":"{token}""#);
        }
        if let Some(remaining) = page.remaining {
            metadata += &format!(r#","remainingItemCount":{remaining}"#);
        }
        if let Some(shard) = &page.shard {
            // Without characters that JSON escapes.
            metadata += &format!(r#","shardInfo":{{"selector":"{shard}"}}"#);
        }
        let kind = format!(r#""kind":"{kind}","apiVersion":"{version}""#);
        let head = format!(r#"{{{kind},"metadata":{metadata}}},"items":["#);
        (head.into_bytes(), b"]}\n".to_vec())
    }

    /// A list whose items are decoded: for other formats, versions and shapes than the stored bytes have.
    async fn list_of_trees(
        &self,
        mut page: Page,
        as_served: bool,
    ) -> Result<Response, StatusError> {
        let mut metadata = list_metadata(&page);
        // Neither Tables nor lists of metadata nor those of custom objects show it.
        if let Some(shard) = &page.shard
            && matches!(self.accepted.shape, Shape::Whole)
            && !self.resource.ty.is_unstructured()
        {
            let info = Map::from_iter([("selector", Value::from(shard.to_string().as_str()))]);
            metadata.insert("shardInfo", info.into());
        }
        let form = ListEncoder::new(self, metadata)?;
        if let Some(rank) = form.printer.as_ref().and_then(|printer| printer.columns().rank()) {
            let read = |item: &Arc<Object>| self.storage.read(item.wire().ok()?).ok();
            page.items.sort_by_cached_key(|item| read(item).map(|object| rank(&object)));
        }
        let rows_of_stored = form.printer.is_some() && !self.resource.columns.per_version();
        let (trees, ty) = form.trees();
        let frame = |items| form.list(items);
        if as_served || rows_of_stored || !self.storage.converts_remotely() {
            return trees.response(page.items, frame, ty.as_ref());
        }
        let to = self.resource.kind.group_version();
        let items = self.storage.converted(page.items, &to).await?;
        trees.response(items, frame, ty.as_ref())
    }

    /// A list of a [`Lister`]'s computed objects. It has no resourceVersion.
    async fn list_found(&self, lister: &dyn Lister) -> Result<Response, StatusError> {
        let Selection { labels, fields, .. } = self.selection()?.cached;
        let mut items = lister.list().await;
        items.retain(|item| {
            labels.selects(item)
                && fields.matches(|field| match field {
                    "metadata.name" => Some(item.str_at(&["metadata", "name"])),
                    _ => None,
                })
        });
        let form = ListEncoder::new(self, Map::new())?;
        let (trees, ty) = form.trees();
        trees.whole(items, |items| form.list(items), ty.as_ref())
    }

    /// A list of whole objects.
    fn whole_list(&self, items: thin_vec::ThinVec<Value>, mut metadata: Map) -> Value {
        if self.resource.ty.is_unstructured() {
            metadata.entry_or_insert_with("continue", || "".into());
        }
        Value::Map(Map::from_iter([
            ("kind", Value::from(self.resource.list_kind.as_str())),
            ("apiVersion", self.resource.api_version().as_str().into()),
            ("metadata", metadata.into()),
            ("items", Value::List(items)),
        ]))
    }

    /// The type of a list; an unstructured one has none.
    fn list_type(&self) -> Option<TypeRef> {
        let Resource { kind, list_kind, ty, .. } = &**self.resource;
        let schema = kevel_api::builtin::schema(&kind.group, &kind.version, list_kind)?;
        (!ty.is_unstructured()).then_some(TypeRef::BuiltIn(schema))
    }
}

/// Encoder of a list whose items are decoded.
struct ListEncoder<'r, 'a> {
    request: &'r StoredRequest<'a>,
    /// Printer of the rows, if a Table was requested.
    printer: Option<Arc<Printer>>,
    metadata: Map,
}

impl<'r, 'a> ListEncoder<'r, 'a> {
    fn new(request: &'r StoredRequest<'a>, metadata: Map) -> Result<Self, StatusError> {
        let printer = match &request.accepted.shape {
            Shape::Table(version) => Some(Arc::new(Printer::new(request, version)?)),
            _ => None,
        };
        Ok(ListEncoder { request, printer, metadata })
    }

    /// The item converter, and the type of the list.
    fn trees(&self) -> (Trees, Option<TypeRef>) {
        let request = self.request;
        let (shape, ty) = match (&self.printer, &request.accepted.shape) {
            (Some(printer), _) => (
                ItemShape::Row(printer.clone(), MicroTime::now(request.request.clock())),
                Some(table::TABLE.clone()),
            ),
            (None, Shape::MetadataList(version)) => {
                (ItemShape::Metadata(version.clone()), Some(table::METADATA_LIST.clone()))
            }
            _ => (ItemShape::Whole, request.list_type()),
        };
        let (resource, storage) = (request.resource.clone(), request.storage.clone());
        (Trees { resource, storage, accepted: request.accepted.clone(), shape }, ty)
    }

    /// The list object around converted items.
    fn list(&self, items: thin_vec::ThinVec<Value>) -> Value {
        let metadata = self.metadata.clone();
        match (&self.printer, &self.request.accepted.shape) {
            (Some(printer), _) => printer.table(items, metadata, true),
            (None, Shape::MetadataList(version)) => table::metadata_list(items, metadata, version),
            _ => self.request.whole_list(items, metadata),
        }
    }
}

fn list_metadata(page: &Page) -> Map {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion", page.revision.to_string().as_str().into());
    if let Some(token) = &page.token {
        metadata.insert("continue", token.as_str().into());
    }
    if let Some(remaining) = page.remaining {
        metadata.insert("remainingItemCount", Value::Int(remaining as i64));
    }
    metadata
}
