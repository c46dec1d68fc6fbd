//! Wire bytes of stored bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::value::Value;
use kevel_api::{builtin, convert, default};
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
    /// Whether watchers get an error event for objects that cannot be read.
    pub reports_damage: bool,
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

    /// An object that is stored as protobuf in any version of its group, as a request's object is decoded: with its defaults (a version with fewer
    /// of them may have written it), and settled. Protobuf has no place for some of what settling writes, such as the
    /// kinds of a StatefulSet's claim templates.
    fn protobuf(&self, stored: &[u8]) -> Result<Value, String> {
        let envelope = protobuf::decode_object(stored).map_err(|error| error.to_string())?;
        let foreign = self.foreign(&envelope.api_version).map(|version| self.kind_in(version));
        if foreign.is_some() {
            self.outdated.store(true, Ordering::Relaxed);
        }
        // A version that is no longer known has the structure of the storage's.
        let known = foreign.as_ref().and_then(|k| builtin::schema(&k.group, &k.version, &k.kind));
        let schema = known.unwrap_or_else(|| self.ty.schema());
        let mut value = envelope.decode(schema).map_err(|error| error.to_string())?;
        default::apply_at(&mut value, schema, &self.clock);
        let version = self.kind.group_version();
        if let Some(foreign) = foreign {
            value = convert::convert(value, &foreign, &version, &embedded_json)?;
        }
        convert::convert(value, &self.kind, &version, &embedded_json)
    }

    /// The version of a stored object, if it is not the storage's.
    fn foreign<'a>(&self, api_version: &'a str) -> Option<&'a str> {
        Some(api_version).filter(|version| !version.is_empty() && *version != self.api_version)
    }

    /// Whether stored bytes have another encoding or version than the storage writes.
    pub fn is_outdated(&self, stored: &[u8]) -> bool {
        match &self.form {
            Some(form) => form.is_outdated(stored),
            None => protobuf::decode_object(stored)
                .is_ok_and(|envelope| self.foreign(&envelope.api_version).is_some()),
        }
    }

    /// The kind in another version.
    fn kind_in(&self, api_version: &str) -> GroupVersionKind {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        GroupVersionKind::new(group, version, self.kind.kind.as_str())
    }
}

impl Decode for StoredDecode {
    fn reports_damage(&self) -> bool {
        self.reports_damage
    }

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

#[cfg(test)]
mod tests {
    use kevel_api::schema::Schema;
    use kevel_store::cache::KeyOrder;

    use super::*;

    fn schema((group, version, kind): (&str, &str, &str)) -> Schema<'static> {
        builtin::schema(group, version, kind).unwrap()
    }

    /// Protobuf of an object in some version; `of` names the schema that it is encoded with.
    fn stored(of: (&str, &str, &str), object: &str) -> Bytes {
        let schema = schema(of);
        let object = json::decode(object.as_bytes(), schema, json::Unknown::Report).unwrap().value;
        protobuf::encode_object(&object, schema).into()
    }

    fn decode_of(storage: &GroupVersionKind) -> StoredDecode {
        StoredDecode {
            ty: TypeRef::BuiltIn(schema((&storage.group, &storage.version, &storage.kind))),
            json: JsonDecode { order: KeyOrder::Struct },
            form: None,
            outdated: AtomicBool::new(false),
            api_version: storage.group_version().to_string(),
            kind: storage.clone(),
            reports_damage: false,
            clock: Clock::system(),
        }
    }

    /// Wire JSON of an object that was stored as protobuf in some version; `of` names the schema that it was encoded with.
    fn read(
        storage: &GroupVersionKind,
        of: (&str, &str, &str),
        object: &str,
    ) -> Result<Value, String> {
        let wire = decode_of(storage).decode(&stored(of, object), Revision(7))?;
        Ok(json::decode_any(&wire.bytes, json::Unknown::Ignore).unwrap().value)
    }

    #[test]
    fn objects_stored_in_another_version_are_converted() {
        let scaler = GroupVersionKind::from_static("autoscaling", "v2", "HorizontalPodAutoscaler");
        let old = r#"{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},
            "spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d"},"targetCPUUtilizationPercentage":50}}"#;
        let form = ("autoscaling", "v1", "HorizontalPodAutoscaler");
        let found = read(&scaler, form, old).unwrap();
        let metric = &found.list_at(&["spec", "metrics"])[0];
        let target = metric.at(&["resource", "target", "averageUtilization"]);
        assert_eq!(target.and_then(Value::as_int), Some(50));

        let claim = GroupVersionKind::from_static("resource.k8s.io", "v1", "ResourceClaim");
        let old = r#"{"apiVersion":"resource.k8s.io/v1beta1","kind":"ResourceClaim","metadata":{"name":"a"},
            "spec":{"devices":{"requests":[{"name":"r","deviceClassName":"c"}]}}}"#;
        let found = read(&claim, ("resource.k8s.io", "v1beta1", "ResourceClaim"), old).unwrap();
        let request = &found.list_at(&["spec", "devices", "requests"])[0];
        assert_eq!(request.str_at(&["exactly", "deviceClassName"]), "c");
    }

    #[test]
    fn objects_stored_in_another_version_are_outdated() {
        let scaler = GroupVersionKind::from_static("autoscaling", "v2", "HorizontalPodAutoscaler");
        for (version, expected) in [("v2", false), ("v1", true)] {
            let object = format!(
                r#"{{"apiVersion":"autoscaling/{version}","kind":"HorizontalPodAutoscaler","metadata":{{"name":"a"}}}}"#
            );
            let stored = stored(("autoscaling", version, "HorizontalPodAutoscaler"), &object);
            let decode = decode_of(&scaler);
            assert_eq!(decode.is_outdated(&stored), expected, "{version}");
            decode.decode(&stored, Revision(7)).unwrap();
            assert_eq!(decode.has_seen_outdated(), expected, "{version}");
        }
    }

    #[test]
    fn removed_versions_are_read_as_they_were_meant() {
        let budget = GroupVersionKind::from_static("policy", "v1", "PodDisruptionBudget");
        let label = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
        for (version, selector, expected) in [
            ("v1", "{}".to_owned(), "{}".to_owned()),
            (
                "v1beta1",
                "{}".to_owned(),
                format!(r#"{{"matchExpressions":[{{"key":"{label}","operator":"Exists"}}]}}"#),
            ),
            (
                "v1beta1",
                format!(
                    r#"{{"matchExpressions":[{{"key":"{label}","operator":"DoesNotExist"}}]}}"#
                ),
                "{}".to_owned(),
            ),
            (
                "v1beta1",
                r#"{"matchLabels":{"a":"b"}}"#.to_owned(),
                r#"{"matchLabels":{"a":"b"}}"#.to_owned(),
            ),
        ] {
            let object = format!(
                r#"{{"apiVersion":"policy/{version}","kind":"PodDisruptionBudget","metadata":{{"name":"a"}},
                    "spec":{{"selector":{selector}}}}}"#
            );
            let form = ("policy", "v1", "PodDisruptionBudget");
            let found = read(&budget, form, &object).unwrap();
            let mut text = Vec::new();
            json::encode_any(found.at(&["spec", "selector"]).unwrap(), &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), expected, "{version} {selector}");
        }
    }
}
