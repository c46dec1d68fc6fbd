//! Decodes request bodies in CBOR into objects.

use bytes::Bytes;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::{cbor, json};

use super::ResourceRequest;
use super::decode::set_kind;
use super::options::FieldValidation;
use super::said_kind::{check_kind, missing_kind, missing_version, unhandled, unrecognized};
use crate::request::json_text;
use kevel_registry::type_ref::TypeRef;

impl ResourceRequest<'_> {
    pub(super) fn decode_cbor(
        &self,
        body: &Bytes,
        kind: &GroupVersionKind,
        ty: &TypeRef,
        validation: FieldValidation,
    ) -> Result<Value, StatusError> {
        match ty.is_unstructured() {
            true => self.decode_unstructured_cbor(body, kind, ty, validation),
            false => self.decode_typed_cbor(body, kind, ty, validation),
        }
    }

    fn decode_typed_cbor(
        &self,
        body: &[u8],
        kind: &GroupVersionKind,
        ty: &TypeRef,
        validation: FieldValidation,
    ) -> Result<Value, StatusError> {
        let unknown = match validation {
            FieldValidation::Ignore => json::Unknown::Ignore,
            FieldValidation::Warn | FieldValidation::Strict => json::Unknown::Report,
        };
        let meta = cbor::type_meta(body).map_err(|error| uninterpreted(kind, &error, body))?;
        check_kind(kind, &meta.api_version, &meta.kind, body)?;
        let decoded = cbor::decode(body, ty.schema(), unknown);
        let decoded = decoded.map_err(|error| unhandled(kind, &error))?;
        match decoded.strict {
            Some(unknown) if validation == FieldValidation::Strict => {
                return Err(unhandled(kind, &json::strict_message(&[unknown])));
            }
            Some(unknown) => self.request.warnings.add(unknown.to_string()),
            None => {}
        }
        let mut value = decoded.value;
        set_kind(&mut value, kind);
        Ok(value)
    }

    /// Decodes an unstructured object: the whole body is decoded into a tree before its kind is checked.
    fn decode_unstructured_cbor(
        &self,
        body: &Bytes,
        kind: &GroupVersionKind,
        ty: &TypeRef,
        validation: FieldValidation,
    ) -> Result<Value, StatusError> {
        let tree = cbor::decode_object(body).map_err(|error| match cbor::type_meta(body) {
            Err(error) => uninterpreted(kind, &error, body),
            Ok(_) => unhandled(kind, &error),
        })?;
        let tree = Value::Map(tree);
        let said = |field| tree.str_at(&[field]);
        let notation = || cbor::diagnose(body).unwrap_or_default();
        if said("kind").is_empty() {
            return Err(missing_kind(kind, &notation(), body));
        }
        if said("apiVersion").is_empty() {
            return Err(missing_version(kind, said("kind"), &notation()));
        }
        self.decode_json(&json_text(&tree), body, &[], kind, ty, validation)
    }
}

/// The 400 for a body whose kind cannot be determined.
fn uninterpreted(kind: &GroupVersionKind, error: &cbor::Error, body: &[u8]) -> StatusError {
    unrecognized(kind, &format!("unable to determine group/version/kind: {error}"), body)
}
