//! Wire bytes of stored bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::value::Value;
use kevel_api::{convert, default};
use kevel_clock::Clock;
use kevel_codec::{json, protobuf};
use kevel_store::Revision;
use kevel_store::cache::{Decode, JsonDecode, Wire};

use super::StoredForm;
use crate::type_ref::TypeRef;

/// Prefix of encrypted values. One that gets here is of a resource without a decrypting transformer.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Reads either form of stored bytes.
pub(super) struct StoredDecode {
    /// The type of the storage's version.
    pub ty: TypeRef,
    /// Scans stored JSON.
    pub json: JsonDecode,
    /// Stored form, for kinds whose type and format do not determine it.
    pub form: Option<Arc<dyn StoredForm>>,
    /// Whether an object was read that would be written in another encoding now.
    pub outdated: AtomicBool,
    /// The kind in the storage's version.
    pub kind: GroupVersionKind,
    /// `apiVersion` of the storage's version.
    pub api_version: String,
    pub clock: Clock,
}

impl StoredDecode {
    pub fn has_seen_outdated(&self) -> bool {
        self.outdated.load(Ordering::Relaxed)
    }

    /// The wire bytes of an object that is kept in a form of its own.
    fn formed(&self, object: &Value, revision: Revision) -> Result<Wire, String> {
        let mut text = Vec::with_capacity(2048);
        json::encode(object, self.ty.schema(), &mut text);
        let version = object.str_at(&["apiVersion"]);
        let foreign = !version.is_empty() && version != self.api_version;
        match foreign {
            true => self.json.decode_with_version(&text, revision),
            false => self.json.decode(&text.into(), revision),
        }
    }

    /// An object that is stored as protobuf, as a request's object is decoded: with its defaults (a version with fewer
    /// of them may have written it), and settled. Protobuf has no place for some of what settling writes, such as the
    /// kinds of a StatefulSet's claim templates.
    fn protobuf(&self, stored: &[u8]) -> Result<Value, String> {
        let schema = self.ty.schema();
        let envelope = protobuf::decode_object(stored).map_err(|error| error.to_string())?;
        let mut value = envelope.decode(schema).map_err(|error| error.to_string())?;
        default::apply_at(&mut value, schema, &self.clock);
        convert::convert(value, &self.kind, &self.kind.group_version(), &embedded_json)
    }
}

impl Decode for StoredDecode {
    fn decode(&self, stored: &Bytes, revision: Revision) -> Result<Wire, String> {
        if let Some(form) = &self.form {
            if form.is_outdated(stored) {
                self.outdated.store(true, Ordering::Relaxed);
            }
            return self.formed(&form.decode(stored)?, revision);
        }
        if stored.starts_with(protobuf::MAGIC) {
            let value = self.protobuf(stored)?;
            let mut text = Vec::with_capacity(stored.len() * 2);
            json::encode(&value, self.ty.schema(), &mut text);
            return self.json.decode(&text.into(), revision);
        }
        match stored.starts_with(ENCRYPTED) {
            true => Err("identity transformer tried to read encrypted data".to_owned()),
            false => self.json.decode(stored, revision),
        }
    }
}

/// The tree of a JSON text inside of an object, if it is one.
pub(super) fn embedded_json(text: &str) -> Option<Value> {
    json::decode_any(text.as_bytes(), json::Unknown::Ignore).ok().map(|decoded| decoded.value)
}
