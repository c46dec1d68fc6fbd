//! Objects and failures as answers.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::schema::Schema;
use kevel_api::status::{Status, StatusError};
use kevel_api::value::Value;
use kevel_codec::{json, protobuf, yaml};

use super::table::Printer;
use super::{Ask, Call};
use crate::body::Body;
use crate::handler::Response;
use crate::negotiate::{self, Accepted, MediaType, Shape};
use crate::request::Request;
use crate::resource::TypeRef;

/// A failure as an answer, in JSON.
pub fn failure(error: StatusError) -> Response {
    failure_in(error, &Accepted::default())
}

/// A failure as an answer to a request, in the form that its client reads. Who reads none that there
/// is gets JSON.
pub fn failure_to(request: &Request, error: StatusError) -> Response {
    let accepted = negotiate::answer(&request.parts.headers, &request.info.query, true);
    let json = || Accepted { pretty: true, ..Accepted::default() };
    failure_in(error, &accepted.unwrap_or_else(|_| json()))
}

/// A failure as an answer, in a form.
pub fn failure_in(error: StatusError, accepted: &Accepted) -> Response {
    let status = error.into_status();
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = status_response(code, &status, accepted);
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry));
    }
    response
}

/// A `Status` as an answer.
pub(super) fn status_response(code: StatusCode, status: &Status, accepted: &Accepted) -> Response {
    let mut text = status.to_json();
    let schema = builtin::schema("", "v1", "Status").filter(|_| *accepted != Accepted::default());
    if let Some(schema) = schema
        && let Ok(status) = json::decode(&text, schema, json::Unknown::Ignore)
        && let Ok(response) = encode(code, &status.value, Some(schema), accepted)
    {
        return response;
    }
    text.push(b'\n');
    json_response(code, text)
}

/// JSON as an answer.
pub fn json_response(code: StatusCode, body: impl Into<Bytes>) -> Response {
    respond(code, MediaType::Json.name(), body.into())
}

pub(super) fn respond(code: StatusCode, media: &'static str, body: impl Into<Body>) -> Response {
    let mut response = http::Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

impl Call<'_> {
    /// An object's wire bytes as an answer. In the version and format that it is kept in, nothing
    /// of it is looked at.
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
            let mut body = self.kind_prefix().into_bytes();
            body.reserve(wire.len() + 1);
            body.extend_from_slice(wire.get(1..).unwrap_or_default());
            body.push(b'\n');
            return Ok(respond(code, MediaType::Json.name(), body));
        }
        let value = self.view(self.served(wire).await?)?;
        self.value(code, value).await
    }

    /// `{"kind":"Pod","apiVersion":"v1",`
    pub(super) fn kind_prefix(&self) -> String {
        let kind = &self.resource.kind.kind;
        let version = self.resource.api_version();
        match self.resource.is_custom() {
            true => format!(r#"{{"apiVersion":"{version}","kind":"{kind}","#),
            false => format!(r#"{{"kind":"{kind}","apiVersion":"{version}","#),
        }
    }

    /// An object's tree in the version that was asked for.
    pub(super) async fn served(&self, wire: &[u8]) -> Result<Value, StatusError> {
        self.request.weight.weigh(wire.len()).await;
        let value = self.storage.read(wire).map_err(StatusError::internal)?;
        if self.storage.shows(wire, &self.resource.kind) {
            return Ok(value);
        }
        let to = self.resource.kind.group_version();
        self.storage.convert(value, &self.storage.kind, &to).await
    }

    /// An object's tree as an answer, in the shape and format that was asked for.
    pub(super) async fn value(
        &self,
        code: StatusCode,
        value: Value,
    ) -> Result<Response, StatusError> {
        let (value, ty) = match &self.accepted.shape {
            Shape::Whole => (value, self.ty()),
            Shape::Table(version) => {
                let table = Printer::new(self, version)?.object(value).await?;
                return self.encoded(code, &table, Some(&super::table::TABLE));
            }
            Shape::Metadata(version) => {
                (super::table::metadata_only(value, version), super::table::METADATA.clone())
            }
            Shape::MetadataList(_) => {
                return Err(crate::negotiate::not_acceptable(&crate::negotiate::BODY_TYPES));
            }
        };
        self.encoded(code, &value, Some(&ty))
    }
}

impl Ask<'_> {
    /// The kind of what is sent and answered: the object's, or that of its subresource.
    pub(super) fn kind(&self) -> &GroupVersionKind {
        self.subresource.map_or(&self.resource.kind, |sub| &sub.kind)
    }

    /// The type of what is answered: the object's, or that of its subresource.
    pub(super) fn ty(&self) -> TypeRef {
        self.subresource.map_or_else(|| self.resource.ty.clone(), |sub| sub.ty.clone())
    }

    /// A tree in the format that was asked for.
    pub(super) fn encoded(
        &self,
        code: StatusCode,
        value: &Value,
        ty: Option<&TypeRef>,
    ) -> Result<Response, StatusError> {
        encode(code, value, ty.map(TypeRef::schema), &self.accepted)
    }
}

pub(super) fn encode(
    code: StatusCode,
    value: &Value,
    schema: Option<Schema<'_>>,
    accepted: &Accepted,
) -> Result<Response, StatusError> {
    let mut text = Vec::with_capacity(2048);
    match (accepted.media, schema) {
        (MediaType::Protobuf, Some(schema)) => {
            let body = protobuf::encode_object(value, schema);
            return Ok(respond(code, MediaType::Protobuf.name(), body));
        }
        (_, Some(schema)) => json::encode(value, schema, &mut text),
        (_, None) => json::encode_any(value, &mut text),
    }
    if accepted.media == MediaType::Yaml {
        let mut body = Vec::with_capacity(text.len());
        yaml::from_json(&text, &mut body).map_err(StatusError::internal)?;
        return Ok(respond(code, MediaType::Yaml.name(), body));
    }
    if accepted.pretty {
        let mut body = Vec::with_capacity(text.len() * 2);
        json::indent(&text, &mut body);
        text = body;
    }
    text.push(b'\n');
    Ok(respond(code, MediaType::Json.name(), text))
}
