//! Tests of the reference's golden objects in JSON, YAML and protobuf: each converts to each of the others exactly.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use kevel_api::builtin;
use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_codec::{base64, json, protobuf, yaml};
use kevel_test_support::facts;

/// Number of objects, and of objects of removed versions that are not defined here.
const OBJECTS: usize = 129;
const UNDEFINED: usize = 32;

#[test]
fn golden_objects() {
    let golden = facts::json("golden.json.gz");
    let (mut objects, mut undefined, mut different) = (0, Vec::new(), Vec::new());
    for (name, object) in golden.as_map().unwrap().iter() {
        objects += 1;
        let golden = Golden::of(object);
        match golden.schema() {
            None => undefined.push(name),
            Some(schema) => {
                let found = golden.differences(schema);
                different.extend(found.into_iter().map(|why| format!("{name}: {why}")));
            }
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
    assert_eq!((objects, undefined.len()), (OBJECTS, UNDEFINED), "not defined: {undefined:?}");
}

struct Golden {
    json: String,
    yaml: String,
    protobuf: Vec<u8>,
}

impl Golden {
    fn of(object: &Value) -> Self {
        let text = |name: &str| object.str_at(&[name]).to_owned();
        let mut protobuf = Vec::new();
        base64::decode_into(object.str_at(&["protobuf"]), &mut protobuf).unwrap();
        Golden { json: text("json"), yaml: text("yaml"), protobuf }
    }

    /// Schema of the object; `None` if the kind is not defined.
    fn schema(&self) -> Option<Schema<'static>> {
        let envelope = protobuf::decode_object(&self.protobuf).unwrap();
        let (group, version) =
            envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
        builtin::schema(group, version, &envelope.kind)
    }

    fn differences(&self, schema: Schema<'_>) -> Vec<String> {
        let mut found = Vec::new();
        for (from, value) in [
            ("JSON", self.read_json(schema)),
            ("YAML", self.read_yaml(schema)),
            ("protobuf", self.read_protobuf(schema)),
        ] {
            match value {
                Err(error) => found.push(format!("{from}: {error}")),
                Ok(value) => {
                    let parts = self.written(&value, schema).into_iter();
                    found.extend(parts.map(|(to, where_)| format!("{from} to {to} {where_}")));
                }
            }
        }
        found
    }

    fn read_json(&self, schema: Schema<'_>) -> Result<Value, String> {
        // Embedded documents keep their white space, which those of the other forms do not have.
        let compact = json::compact(self.json.as_bytes()).map_err(|error| error.to_string())?;
        strict(json::decode(compact.as_bytes(), schema, json::Unknown::Report))
    }

    fn read_yaml(&self, schema: Schema<'_>) -> Result<Value, String> {
        let read = yaml::decode(self.yaml.as_bytes(), schema, json::Unknown::Report);
        read.map_err(|error| error.to_string()).map(|read| read.value)
    }

    fn read_protobuf(&self, schema: Schema<'_>) -> Result<Value, String> {
        let envelope =
            protobuf::decode_object(&self.protobuf).map_err(|error| error.to_string())?;
        envelope.decode(schema).map_err(|error| error.to_string())
    }

    /// Differences between the encoded and the golden text. Protobuf and YAML must be equal byte for byte, JSON after
    /// compaction.
    fn written(&self, value: &Value, schema: Schema<'_>) -> Vec<(&'static str, String)> {
        let (mut json, mut yaml) = (Vec::new(), Vec::new());
        json::encode(value, schema, &mut json);
        yaml::encode(value, schema, &mut yaml).unwrap();
        let compact = |text: &[u8]| json::compact(text).unwrap().as_bytes().to_vec();
        let pairs = [
            ("JSON", compact(&json), compact(self.json.as_bytes())),
            ("YAML", yaml, self.yaml.clone().into_bytes()),
            ("protobuf", protobuf::encode_object(value, schema), self.protobuf.clone()),
        ];
        let pairs = pairs.into_iter().filter(|(_, ours, theirs)| ours != theirs);
        pairs.map(|(to, ours, theirs)| (to, difference(&ours, &theirs))).collect()
    }
}

fn strict(read: Result<json::Decoded, json::Error>) -> Result<Value, String> {
    let read = read.map_err(|error| error.to_string())?;
    match read.strict.is_empty() {
        true => Ok(read.value),
        false => Err(json::strict_message(&read.strict)),
    }
}

/// First difference of two byte strings.
fn difference(ours: &[u8], theirs: &[u8]) -> String {
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        let part = bytes.get(at.saturating_sub(24)..bytes.len().min(at + 24)).unwrap_or_default();
        part.escape_ascii().to_string()
    };
    format!("at byte {at}: {} instead of {}", around(ours), around(theirs))
}
