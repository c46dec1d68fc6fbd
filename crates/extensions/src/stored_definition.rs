//! Stored form of CustomResourceDefinitions in etcd: JSON in `v1beta1`, which is smaller, because the parts that all
//! versions share are stored once.

use bytes::Bytes;
use kevel_api::default;
use kevel_api::schema::Schema;
use kevel_api::value::{Map, Value};
use kevel_codec::{json, protobuf};
use kevel_registry::storage::StoredForm;

use crate::definition::GROUP;

const OLD: &str = "v1beta1";

/// Parts that versions may share: the field in a version, and the field in the spec.
const SHARED: [(&str, &str); 4] = [
    ("subresources", "subresources"),
    ("schema", "validation"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Definitions as the reference stores them in etcd.
#[derive(Debug)]
pub struct StoredDefinitions {
    /// Schema of CustomResourceDefinition in `v1`.
    pub schema: Schema<'static>,
}

impl StoredForm for StoredDefinitions {
    fn version(&self) -> Option<&'static str> {
        Some("v1beta1")
    }

    fn encode(&self, definition: &Value) -> Bytes {
        let mut text = Vec::with_capacity(4096);
        json::encode(definition, self.schema, &mut text);
        // The generic tree has the zero values that trees of built-in types leave out.
        if let Ok(read) = json::decode_any(&text, json::Unknown::Ignore) {
            let old = to_v1beta1(read.value);
            text.clear();
            json::encode_any(&old, &mut text);
        }
        text.push(b'\n');
        text.into()
    }

    fn decode(&self, stored: &[u8]) -> Result<Value, String> {
        let mut definition = match stored.starts_with(protobuf::MAGIC) {
            true => {
                let envelope = protobuf::decode_object(stored).map_err(|e| e.to_string())?;
                envelope.decode(self.schema).map_err(|error| error.to_string())?
            }
            false => self.decode_json(stored)?,
        };
        if let Some(map) = definition.as_map_mut() {
            map.remove("apiVersion");
            map.remove("kind");
        }
        default::apply(&mut definition, self.schema);
        Ok(definition)
    }
}

impl StoredDefinitions {
    fn decode_json(&self, stored: &[u8]) -> Result<Value, String> {
        let meta = json::type_meta(stored).map_err(|error| error.to_string())?;
        let read = |text: &[u8]| {
            let read = json::decode(text, self.schema, json::Unknown::Ignore);
            read.map(|read| read.value).map_err(|error| error.to_string())
        };
        if meta.api_version != format!("{GROUP}/{OLD}") {
            return read(stored);
        }
        let old = json::decode_any(stored, json::Unknown::Ignore);
        let old = old.map_err(|error| error.to_string())?.value;
        let mut text = Vec::with_capacity(stored.len() * 2);
        json::encode_any(&from_v1beta1(old), &mut text);
        read(&text)
    }
}

fn to_v1beta1(mut definition: Value) -> Value {
    let root = definition.make_map(&[]);
    root.insert("apiVersion", format!("{GROUP}/{OLD}").as_str().into());
    root.insert("kind", "CustomResourceDefinition".into());
    let spec = definition.make_map(&["spec"]);
    spec.entry_or_insert_with("preserveUnknownFields", || false.into());
    let mut versions = spec.remove("versions").unwrap_or_default();
    rename_columns(&mut versions, "jsonPath", "JSONPath");
    let list = versions.as_list_mut().map(std::mem::take).unwrap_or_default();
    let mut versions: Vec<Value> = list.into_iter().collect();
    if let Some(first) = versions.first().cloned() {
        if let Some(name) = first.at(&["name"]) {
            spec.insert("version", name.clone());
        }
        for (field, shared) in SHARED {
            let common = first.at(&[field]);
            if versions.iter().any(|version| version.at(&[field]) != common) {
                continue;
            }
            if let Some(common) = common {
                spec.insert(shared, common.clone());
            }
            for version in versions.iter_mut().filter_map(Value::as_map_mut) {
                version.remove(field);
            }
        }
    }
    spec.insert("versions", Value::List(versions.into_iter().collect()));
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_map_mut)
        && let Some(Value::Map(webhook)) = conversion.remove("webhook")
    {
        for (field, value) in webhook.into_entries() {
            let name = if field == "clientConfig" { "webhookClientConfig" } else { &*field };
            conversion.insert(name, value);
        }
    }
    definition
}

fn from_v1beta1(mut definition: Value) -> Value {
    let spec = definition.make_map(&["spec"]);
    let version = spec.remove("version");
    let versions = spec.entry_or_insert_with("versions", || Value::List(Default::default()));
    if versions.is_empty()
        && let Some(name) = version
    {
        let only = [("name", name), ("served", true.into()), ("storage", true.into())];
        *versions = Value::List([Map::from_iter(only).into()].into_iter().collect());
    }
    let mut versions = versions.as_list_mut().map(std::mem::take).unwrap_or_default();
    for (field, shared) in SHARED {
        let Some(common) = spec.remove(shared) else { continue };
        for version in versions.iter_mut().filter_map(Value::as_map_mut) {
            version.insert(field, common.clone());
        }
    }
    let mut versions = Value::List(versions);
    rename_columns(&mut versions, "JSONPath", "jsonPath");
    spec.insert("versions", versions);
    spec.entry_or_insert_with("preserveUnknownFields", || true.into());
    spec.entry_or_insert_with("scope", || "Namespaced".into());
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_map_mut) {
        let reviews = conversion.remove("conversionReviewVersions");
        let client = conversion.remove("webhookClientConfig");
        let is_webhook = conversion.get("strategy").and_then(Value::as_str) == Some("Webhook");
        let usual = || Value::List([OLD.into()].into_iter().collect());
        let reviews = reviews.or_else(|| is_webhook.then(usual));
        let parts = [("clientConfig", client), ("conversionReviewVersions", reviews)];
        let parts = parts.into_iter().filter_map(|(field, value)| Some((field, value?)));
        let webhook: Map = parts.collect();
        if !webhook.is_empty() {
            conversion.insert("webhook", webhook.into());
        }
    }
    definition
}

/// Renames the JSON path of columns, which is `JSONPath` in v1beta1.
fn rename_columns(versions: &mut Value, from: &str, to: &str) {
    for version in versions.as_list_mut().into_iter().flatten() {
        let columns = version.at_mut(&["additionalPrinterColumns"]).and_then(Value::as_list_mut);
        for column in columns.into_iter().flatten().filter_map(Value::as_map_mut) {
            if let Some(path) = column.remove(from) {
                column.insert(to, path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> StoredDefinitions {
        let schema = kevel_api::builtin::schema(GROUP, "v1", "CustomResourceDefinition");
        StoredDefinitions { schema: schema.unwrap() }
    }

    #[test]
    fn what_versions_share_stands_once() {
        let definition = br#"{"metadata": {"name": "widgets.example.com"}, "spec": {
            "group": "example.com", "names": {"plural": "widgets", "singular": "widget",
                "kind": "Widget", "listKind": "WidgetList"}, "scope": "Namespaced",
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "https://example.com"}, "conversionReviewVersions": ["v1"]}},
            "versions": [
                {"name": "v1", "served": true, "storage": true,
                 "schema": {"openAPIV3Schema": {"type": "object"}},
                 "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}]},
                {"name": "v2", "served": false, "storage": false,
                 "schema": {"openAPIV3Schema": {"type": "object"}}}]}}"#;
        let form = form();
        let read = json::decode(definition, form.schema, json::Unknown::Ignore).unwrap().value;
        let stored = form.encode(&read);
        let old = json::decode_any(&stored, json::Unknown::Ignore).unwrap().value;
        let spec = old.at(&["spec"]).unwrap();
        for (path, expected) in [
            (&["version"][..], r#""v1""#),
            (&["validation", "openAPIV3Schema", "type"], r#""object""#),
            (&["preserveUnknownFields"], "false"),
            (&["conversion", "webhookClientConfig", "url"], r#""https://example.com""#),
        ] {
            let mut text = Vec::new();
            json::encode_any(spec.at(path).unwrap(), &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), expected, "{path:?}");
        }
        assert!(spec.at(&["additionalPrinterColumns"]).is_none());
        assert!(stored.ends_with(b"\n"));
        let mut expected = read;
        default::apply(&mut expected, form.schema);
        let text = |value: &Value| {
            let mut text = Vec::new();
            json::encode(value, form.schema, &mut text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(&form.decode(&stored).unwrap()), text(&expected));
    }

    #[test]
    fn definitions_of_one_version_are_understood() {
        let stored = br#"{"apiVersion":"apiextensions.k8s.io/v1beta1",
            "kind":"CustomResourceDefinition","metadata":{"name":"a.b.c"},
            "spec":{"group":"b.c","version":"v1","names":{"plural":"a","kind":"A"}}}"#;
        let read = form().decode(stored).unwrap();
        let definition = crate::definition::Definition(&read);
        assert_eq!(definition.storage_version(), Some("v1"));
        assert!(definition.preserves_unknown_fields() && definition.is_namespaced());
        assert_eq!(definition.names().list_kind(), "AList");
    }
}
