//! Responses with a single object.

use bytes::Bytes;
use http::StatusCode;
use kevel_api::gvk::{GroupKind, GroupVersion, GroupVersionKind};
use kevel_api::status::StatusError;
use kevel_api::value::Value;

use super::table::Printer;
use super::{ResourceRequest, StoredRequest};
use crate::handler::Response;
use crate::negotiate::{MediaType, Shape};
use crate::responses::{InHand, encode, respond};
use crate::type_ref::TypeRef;

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
        let value = self.view(self.served(wire).await?)?;
        self.value(code, value).await
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

    /// Decodes an object in the requested version.
    pub(super) async fn served(&self, wire: &Bytes) -> Result<Value, StatusError> {
        kevel_compute::expect(&self.request.meter, wire.len()).await;
        if self.storage.shows(wire, &self.resource.kind) {
            return self.storage.read(wire).map_err(StatusError::internal);
        }
        self.storage.read_in(wire, &self.resource.kind.group_version()).await
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
        let ty = self.go_type();
        let why =
            format!("you requested {asked}, but the requested object is {is} (*{ty}{suffix})");
        StatusError::unacceptable(why)
    }

    /// Name of the object's type in the reference: `core.Node`.
    pub(super) fn go_type(&self) -> String {
        let kind = self.kind();
        let package = match kind.group.as_str() {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        match self.resource.ty.is_unstructured() {
            true => "unstructured.Unstructured".to_owned(),
            false => format!("{package}.{}", kind.kind),
        }
    }

    /// Group and kind in failures: those in the body of an unstructured object, else those of the path.
    pub(super) fn said_group_kind(&self, object: &Value) -> GroupKind {
        if !self.resource.ty.is_unstructured() {
            return self.resource.group_kind();
        }
        let version = object.str_at(&["apiVersion"]).parse::<GroupVersion>().unwrap_or_default();
        GroupKind::new(version.group, object.str_at(&["kind"]))
    }

    /// Kind of the request and response body: the resource's, or the subresource's.
    pub(super) fn kind(&self) -> &GroupVersionKind {
        self.subresource.map_or(&self.resource.kind, |sub| &sub.kind)
    }

    /// Type of the response body: the resource's, or the subresource's.
    pub(super) fn ty(&self) -> TypeRef {
        self.subresource.map_or_else(|| self.resource.ty.clone(), |sub| sub.ty.clone())
    }

    /// Encodes an object in the negotiated media type; for an in-process client it stays a tree.
    pub(super) fn encoded(
        &self,
        code: StatusCode,
        value: Value,
        ty: &TypeRef,
    ) -> Result<Response, StatusError> {
        if self.accepted.in_process {
            return Ok(InHand::Object(value, ty.clone()).response(code));
        }
        let serializing = self.serializing();
        serializing.finish(encode(code, &value, Some(ty.schema()), &self.accepted))
    }
}
