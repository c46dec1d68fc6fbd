//! How custom objects are kept: as JSON, in the version that is the storage version at the time.

use std::sync::Arc;

use bytes::Bytes;
use kevel_api::default;
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_server::resource::api_version;
use kevel_server::storage::{Conversion as _, StoredForm};
use kevel_server::type_ref::TypeRef;

use crate::conversion::Versions;
use crate::malformed::drop_malformed;

/// Custom objects as they are kept.
#[derive(Debug)]
pub struct StoredObjects {
    /// The kind, in the version that is stored.
    pub kind: GroupVersionKind,
    /// The type of that version.
    pub ty: TypeRef,
    /// All versions, and how one becomes another.
    pub versions: Arc<Versions>,
}

impl StoredForm for StoredObjects {
    fn encode(&self, object: &Value) -> Bytes {
        let mut out = Vec::with_capacity(1024);
        json::encode(object, self.ty.schema(), &mut out);
        out.push(b'\n');
        out.into()
    }

    /// An object as the definition wants it now, whatever it wanted when the object was written, in the version in which
    /// it was written and with the defaults of that.
    fn decode(&self, stored: &[u8]) -> Result<Value, String> {
        let meta = json::type_meta(stored).map_err(|error| error.to_string())?;
        let version: GroupVersion = meta.api_version.parse().unwrap_or_default();
        let known = self.versions.ty(&version.version);
        let schema = known.unwrap_or(&self.ty).schema();
        let mut object = read(stored, schema).map_err(|error| error.to_string())?;
        default::drop_nulls(&mut object, schema);
        default::apply(&mut object, schema);
        // Objects from before generations were counted.
        object.make_map(&["metadata"]).entry_or_insert_with("generation", || Value::Int(1));
        let current = self.kind.group_version();
        let is_known = known.is_some() && version.group == current.group;
        if is_known || self.versions.is_remote() {
            return Ok(object);
        }
        let name = api_version(&current.group, &current.version);
        let converted = self.versions.convert_at_once(object, &current);
        converted.ok_or_else(|| format!("cannot be converted to {name}"))
    }
}

/// The tree of a stored object. Metadata that is not of its type does not keep the rest from being read: it was not checked
/// in every version of the reference.
fn read(stored: &[u8], schema: Schema<'_>) -> Result<Value, json::Error> {
    let decode = |text: &[u8]| json::decode(text, schema, json::Unknown::Ignore);
    match decode(stored) {
        Err(json::Error::Value(_)) => {
            let mut tree = json::decode_any(stored, json::Unknown::Ignore)?.value;
            drop_malformed(&mut tree, schema);
            let mut text = Vec::with_capacity(stored.len());
            json::encode_any(&tree, &mut text);
            decode(&text).map(|decoded| decoded.value)
        }
        decoded => decoded.map(|decoded| decoded.value),
    }
}
