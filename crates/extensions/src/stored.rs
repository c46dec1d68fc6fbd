//! How custom objects are kept: as JSON, in the version that is the storage version at the time.

use std::sync::Arc;

use bytes::Bytes;
use kevel_api::default;
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_server::resource::api_version;
use kevel_server::storage::{Conversion as _, StoredForm};
use kevel_server::type_ref::TypeRef;

use crate::conversion::Versions;

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

    /// An object as the definition wants it now, whatever it wanted when the object was written.
    fn decode(&self, stored: &[u8]) -> Result<Value, String> {
        let meta = json::type_meta(stored).map_err(|error| error.to_string())?;
        let version: GroupVersion = meta.api_version.parse().unwrap_or_default();
        let ty = self.versions.ty(&version.version).unwrap_or(&self.ty);
        let decoded = json::decode(stored, ty.schema(), json::Unknown::Ignore);
        let mut object = decoded.map_err(|error| error.to_string())?.value;
        default::drop_nulls(&mut object, ty.schema());
        default::apply(&mut object, ty.schema());
        // Objects from before generations were counted.
        object.make_map(&["metadata"]).entry_or_insert_with("generation", || Value::Int(1));
        let current = self.kind.group_version();
        if version == current || self.versions.is_remote() {
            return Ok(object);
        }
        let name = api_version(&current.group, &current.version);
        let converted = self.versions.convert_at_once(object, &current);
        converted.ok_or_else(|| format!("cannot be converted to {name}"))
    }
}
