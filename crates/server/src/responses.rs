//! Failures and objects as responses, in the negotiated form.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use kevel_api::builtin;
use kevel_api::schema::Schema;
use kevel_api::status::{Status, StatusError};
use kevel_api::value::Value;
use kevel_codec::{cbor, json, protobuf, yaml};

use crate::body::Body;
use crate::handler::Response;
use crate::negotiate::{self, Accepted, MediaType, Offer};
use crate::request::Request;
use kevel_registry::resource::Cbor;
use kevel_registry::type_ref::TypeRef;

/// A failure as a response in JSON.
pub fn failure(error: StatusError) -> Response {
    failure_in(error, &Accepted::default())
}

/// A failure as the response to a request, in a media type that its client accepts, or in JSON.
pub fn failure_to(request: &Request, error: StatusError) -> Response {
    failure_in(error, &form_of_failures(request, Cbor(false)))
}

/// The form of failures that the client accepts, or indented JSON.
pub(crate) fn form_of_failures(request: &Request, cbor: Cbor) -> Accepted {
    let (headers, query) = (&request.parts.headers, &request.info.query);
    let accepted = negotiate::answer(headers, query, Offer::Documents(cbor));
    let json = || Accepted { pretty: true, ..Accepted::default() };
    let accepted = accepted.unwrap_or_else(|_| json());
    Accepted { in_process: request.in_process, ..accepted }
}

/// Result for the in-process client, an extension of the response instead of a body.
#[derive(Clone, Debug)]
pub enum ResponseObject {
    /// An object and its type.
    Object(Value, TypeRef),
    /// Status of a failed request.
    Failure(Status),
}

impl ResponseObject {
    /// Response that carries the result.
    pub fn response(self, code: StatusCode) -> Response {
        let mut response = http::Response::new(Body::empty());
        *response.status_mut() = code;
        response.extensions_mut().insert(self);
        response
    }
}

/// A failure as a response in a negotiated form.
pub(crate) fn failure_in(error: StatusError, accepted: &Accepted) -> Response {
    let status = error.into_status();
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if accepted.in_process {
        return ResponseObject::Failure(status).response(code);
    }
    let mut response = status_response(code, &status, accepted);
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry));
    }
    response
}

/// A `Status` as a response.
pub(crate) fn status_response(code: StatusCode, status: &Status, accepted: &Accepted) -> Response {
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

/// JSON as a response.
pub(crate) fn json_response(code: StatusCode, body: impl Into<Bytes>) -> Response {
    respond(code, MediaType::Json.name(), body.into())
}

/// Bytes of a media type as a response.
pub(crate) fn respond(code: StatusCode, media: &'static str, body: impl Into<Body>) -> Response {
    let mut response = http::Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// An object as a response in a negotiated form.
pub(crate) fn encode(
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
        (MediaType::Cbor, schema) => {
            return Ok(respond(code, MediaType::Cbor.name(), cbor_document(value, schema)));
        }
        (_, Some(schema)) => json::encode(value, schema, &mut text),
        (_, None) => json::encode_any(value, &mut text),
    }
    if accepted.media == MediaType::Yaml {
        let mut body = Vec::with_capacity(text.len());
        yaml::from_json(&text, &mut body).map_err(StatusError::internal)?;
        return Ok(respond(code, MediaType::Yaml.name(), body));
    }
    let mut body = text;
    match accepted.pretty {
        true => body = indented(&body),
        false => body.push(b'\n'),
    }
    Ok(respond(code, MediaType::Json.name(), body))
}

/// An object in CBOR, with the self-described tag.
pub(crate) fn cbor_document(value: &Value, schema: Option<Schema<'_>>) -> Vec<u8> {
    let mut body = Vec::with_capacity(2048);
    body.extend_from_slice(cbor::SELF_DESCRIBED);
    match schema {
        Some(schema) => cbor::encode(value, schema, &mut body),
        None => cbor::encode_any(value, &mut body),
    }
    body
}

/// Indented JSON, without a line break at the end.
pub(crate) fn indented(text: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(text.len() * 2);
    json::indent(text, &mut body);
    body
}
