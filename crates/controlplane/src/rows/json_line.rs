//! Stored form of kinds that etcd holds as JSON: a line, as the reference's serializer writes it.

use bytes::Bytes;
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};
use kevel_registry::storage::StoredForm;
use kevel_registry::type_ref::TypeRef;

/// JSON with a line end, which other readers of the same etcd find byte for byte as the reference's.
#[derive(Debug)]
pub(super) struct JsonLine {
    /// Type of the storage version.
    pub(super) ty: TypeRef,
}

impl StoredForm for JsonLine {
    fn encode(&self, object: &Value) -> Bytes {
        let mut text = Vec::with_capacity(1024);
        json::encode(object, self.ty.schema(), &mut text);
        text.push(b'\n');
        text.into()
    }

    // reference message
    fn decode(&self, stored: &[u8]) -> Result<Value, String> {
        let decoded = json::decode(stored, self.ty.schema(), Unknown::Ignore);
        decoded.map(|decoded| decoded.value).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use kevel_api::builtin;

    use super::*;

    #[test]
    fn stored_line_is_read_back() {
        let schema = builtin::schema("apiregistration.k8s.io", "v1", "APIService").unwrap();
        let line = JsonLine { ty: TypeRef::BuiltIn(schema) };
        let text = br#"{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"v1.e.x"},"spec":{"group":"e.x","version":"v1","groupPriorityMinimum":1,"versionPriority":2},"status":{}}"#;
        for end in ["", "\n", " \n"] {
            let object = line.decode(&[text, end.as_bytes()].concat()).unwrap();
            assert_eq!(line.encode(&object), [&text[..], b"\n"].concat());
        }
        assert!(line.decode(b"k8s\0").is_err());
    }
}
