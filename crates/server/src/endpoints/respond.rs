//! Responses with a single object.

use bytes::Bytes;
use http::StatusCode;
use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::table::Printer;
use super::{ResourceRequest, StoredRequest};
use crate::handler::Response;
use crate::negotiate::{MediaType, Shape};
use crate::responses::{ResponseObject, encode, respond};
use kevel_registry::store::{Written, WrittenObject};
use kevel_registry::type_ref::TypeRef;

impl StoredRequest<'_> {
    /// Responds with an object's wire bytes. They are not decoded if the client accepts the stored version and format.
    pub(super) async fn object(
        &self,
        code: StatusCode,
        wire: &Bytes,
    ) -> Result<Response, StatusError> {
        let plain = self.accepted.media == MediaType::Json
            && self.accepted.shape == Shape::Whole
            && !self.accepted.pretty
            && self.subresource.is_none_or(|sub| sub.kind.kind == self.resource.kind.kind)
            && self.storage.shows(wire, &self.resource.kind);
        if plain {
            let serializing = self.serializing();
            let mut body = self.kind_prefix().into_bytes();
            body.reserve(wire.len() + 1);
            body.extend_from_slice(wire.get(1..).unwrap_or_default());
            body.push(b'\n');
            return serializing.finish(Ok(respond(code, MediaType::Json.name(), body)));
        }
        let store = self.store();
        let value = store.view(store.served(wire).await?)?;
        self.value(code, value).await
    }

    /// Responds with an object that has been written.
    pub(super) async fn written(&self, written: Written) -> Result<Response, StatusError> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        match written.object {
            WrittenObject::Wire(wire) => self.object(code, &wire).await,
            WrittenObject::Tree(value) => self.value(code, value).await,
        }
    }

    /// `{"kind":"Pod","apiVersion":"v1",`
    pub(super) fn kind_prefix(&self) -> String {
        let kind = &self.resource.kind.kind;
        let version = self.resource.api_version();
        match self.resource.ty.is_unstructured() {
            true => format!(r#"{{"apiVersion":"{version}","kind":"{kind}","#),
            false => format!(r#"{{"kind":"{kind}","apiVersion":"{version}","#),
        }
    }

    /// An object's tree as a response, in the shape and format that the client accepts.
    pub(super) async fn value(
        &self,
        code: StatusCode,
        value: Value,
    ) -> Result<Response, StatusError> {
        let (value, ty) = match &self.accepted.shape {
            Shape::Whole => (value, self.ty()),
            Shape::Table(version) => {
                let table = Printer::new(self, version)?.object(value).await?;
                return self.encoded(code, table, &super::table::TABLE);
            }
            Shape::Metadata(version) => {
                let metadata = super::table::metadata_only(value, version, self.resource);
                (metadata, super::table::METADATA.clone())
            }
            Shape::MetadataList(_) => {
                return Err(self.misfit("PartialObjectMetadataList", "not a list", ""));
            }
        };
        self.encoded(code, value, &ty)
    }
}

impl ResourceRequest<'_> {
    /// The 406 for a request of PartialObjectMetadataList where the result is an object, or the other way round.
    pub(super) fn misfit(&self, asked: &str, is: &str, suffix: &str) -> StatusError {
        let ty = self.scope().go_type();
        let why =
            format!("you requested {asked}, but the requested object is {is} (*{ty}{suffix})");
        StatusError::unacceptable(why)
    }

    /// Encodes an object in the negotiated media type; for an in-process client it stays a tree.
    pub(super) fn encoded(
        &self,
        code: StatusCode,
        value: Value,
        ty: &TypeRef,
    ) -> Result<Response, StatusError> {
        if self.accepted.in_process {
            return Ok(ResponseObject::Object(value, ty.clone()).response(code));
        }
        let serializing = self.serializing();
        serializing.finish(encode(code, &value, Some(ty.schema()), &self.accepted))
    }
}
