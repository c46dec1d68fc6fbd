//! Stored form of custom objects: JSON or CBOR, in the storage version of the time.

use std::sync::Arc;

use bytes::Bytes;
use kevel_api::default;
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_codec::{cbor, json};
use kevel_registry::resource::Cbor;
use kevel_registry::resource::api_version;
use kevel_registry::storage::{Conversion as _, StoredForm};
use kevel_registry::type_ref::TypeRef;

use crate::conversion::Versions;
use crate::malformed::drop_malformed;

/// Stored form of the objects of a custom resource.
#[derive(Debug)]
pub struct StoredObjects {
    /// Kind, in the storage version.
    pub kind: GroupVersionKind,
    /// Type of the storage version.
    pub ty: TypeRef,
    /// All versions, and the conversion between them.
    pub versions: Arc<Versions>,
    /// Whether objects are written in CBOR. Both forms can be read, so that the feature can be switched on and off.
    pub cbor: Cbor,
}

impl StoredForm for StoredObjects {
    fn encode(&self, object: &Value) -> Bytes {
        let mut out = Vec::with_capacity(1024);
        if self.cbor.0 {
            out.extend_from_slice(cbor::SELF_DESCRIBED);
            cbor::encode(object, self.ty.schema(), &mut out);
            return out.into();
        }
        json::encode(object, self.ty.schema(), &mut out);
        out.push(b'\n');
        out.into()
    }

    /// Decodes a stored object: pruned by the current schema of the version in which it was written, with that
    /// version's defaults.
    fn decode(&self, stored: &[u8]) -> Result<Value, String> {
        let json;
        let stored = match is_cbor(stored) {
            true => {
                json = cbor::to_json(stored).map_err(|error| error.to_string())?;
                &json
            }
            false => stored,
        };
        let meta = json::type_meta(stored).map_err(|error| error.to_string())?;
        let version: GroupVersion = meta.api_version.parse().unwrap_or_default();
        let known = self.versions.ty(&version.version);
        let schema = known.unwrap_or(&self.ty).schema();
        let mut object = read(stored, schema).map_err(|error| error.to_string())?;
        default::drop_nulls(&mut object, schema);
        default::apply(&mut object, schema);
        // Objects stored before generations were counted.
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

    fn is_outdated(&self, stored: &[u8]) -> bool {
        is_cbor(stored) != self.cbor.0 || self.is_of_other_version(stored)
    }
}

impl StoredObjects {
    /// Whether an object is stored in another version than the storage version.
    fn is_of_other_version(&self, stored: &[u8]) -> bool {
        let current = api_version(&self.kind.group, &self.kind.version);
        let written = stored.strip_prefix(br#"{"apiVersion":""#);
        let rest = written.and_then(|rest| rest.strip_prefix(current.as_bytes()));
        if rest.is_some_and(|rest| rest.starts_with(b"\"")) {
            return false;
        }
        let of = |json: &[u8]| json::type_meta(json).ok().map(|meta| meta.api_version);
        let found = if is_cbor(stored) {
            cbor::to_json(stored).ok().and_then(|json| of(&json))
        } else {
            of(stored)
        };
        found.is_some_and(|version| version != current)
    }
}

/// Whether stored bytes are CBOR, which begins with a tag that cannot begin JSON.
fn is_cbor(stored: &[u8]) -> bool {
    stored.starts_with(cbor::SELF_DESCRIBED)
}

/// Tree of a stored object. Malformed metadata is dropped, because not every version of the reference validated it.
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

#[cfg(test)]
mod tests {
    use kevel_api::crd_schema;
    use kevel_registry::storage::ConvertedObjects;
    use kevel_test_support::facts;

    use super::*;

    const PRESERVE: &str = r#""type":"object","x-kubernetes-preserve-unknown-fields":true"#;

    fn form(schema: &str) -> StoredObjects {
        let tree = |text: &str| {
            json::decode_any(text.as_bytes(), json::Unknown::Ignore).ok().map(|read| read.value)
        };
        let (table, id) = crd_schema::table(&tree(schema).unwrap(), &tree).unwrap();
        let ty = TypeRef::Custom(Arc::new(table), id);
        let types = [("v1".to_owned(), ty.clone())].into_iter().collect();
        let converted = Arc::new(ConvertedObjects::default());
        let versions = Arc::new(Versions::new(types, None, &converted));
        let kind = GroupVersionKind::new("example.com", "v1", "Widget");
        StoredObjects { kind, ty, versions, cbor: Cbor(false) }
    }

    /// Custom object around a golden object, whole and embedded, with further values that JSON can have.
    fn custom(golden: &str) -> String {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"a","labels":{{}},"generation":1}},
                "whole":{golden},"embedded":{golden},
                "more":{{"null":null,"empty":[{{}},[],"",0,0.5,1e300,-1,false,null],"text":"\u0000\ud83d\ude00<>&"}}}}"#
        )
    }

    #[test]
    fn object_of_another_version_or_encoding_is_outdated() {
        let mut form = form(&format!("{{{PRESERVE}}}"));
        let text = |version: &str| format!(r#"{{"apiVersion":"{version}","kind":"Widget"}}"#);
        let last = r#"{"kind":"Widget","apiVersion":"example.com/v1"}"#.to_owned();
        for (text, outdated) in [
            (text("example.com/v1"), false),
            (text("example.com/v10"), true),
            (text("example.com/v2"), true),
            (last, false),
            ("{".to_owned(), false),
        ] {
            assert_eq!(form.is_outdated(text.as_bytes()), outdated, "{text}");
        }
        let tree = |version: &str| {
            json::decode_any(text(version).as_bytes(), json::Unknown::Ignore).unwrap().value
        };
        form.cbor = Cbor(true);
        assert!(form.is_outdated(text("example.com/v1").as_bytes()));
        for (version, outdated) in [("example.com/v1", false), ("example.com/v2", true)] {
            let stored = form.encode(&tree(version));
            assert_eq!(form.is_outdated(&stored), outdated, "{version}");
        }
    }

    #[test]
    fn stored_custom_object_reads_as_sent_and_defaulted() {
        let schema = format!(
            r#"{{"type":"object","properties":{{"whole":{{{PRESERVE}}},
                "embedded":{{{PRESERVE},"x-kubernetes-embedded-resource":true}},
                "more":{{{PRESERVE},"properties":{{"defaulted":{{"type":"integer","default":7}}}}}}}}}}"#
        );
        let form = form(&schema);
        let schema = form.ty.schema();
        let golden = facts::json("golden.json.gz");
        let golden = golden.as_map().unwrap();
        for (name, object) in golden.iter() {
            let text = custom(object.str_at(&["json"]));
            let sent = json::decode(text.as_bytes(), schema, json::Unknown::Ignore);
            let mut sent = sent.unwrap().value;
            default::drop_nulls(&mut sent, schema);
            default::apply(&mut sent, schema);
            let read = form.decode(&form.encode(&sent)).unwrap();
            assert_eq!(read, sent, "{name}");
            assert_eq!(read.at(&["more", "defaulted"]), Some(&Value::Int(7)));
            assert_eq!(read.at(&["metadata", "labels"]), None);
            assert_eq!(form.decode(&form.encode(&read)).unwrap(), read, "{name}");
        }
        assert!(golden.len() > 100, "{}", golden.len());
    }
}
