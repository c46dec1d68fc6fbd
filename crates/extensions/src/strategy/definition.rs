//! Strategy of CustomResourceDefinitions.

use kevel_api::field_error::FieldErrors;
use kevel_api::quote::quote;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_clock::Clock;
use kevel_registry::strategy::{Dependents, Strategy};

use crate::definition::{CLEANUP_FINALIZER, Condition, Definition, condition, set_condition};
use crate::schema::format;
use crate::validation;

/// Strategy of CustomResourceDefinitions.
#[derive(Clone, Debug)]
pub struct DefinitionStrategy {
    /// Time of the server.
    pub clock: Clock,
    /// Conditions may say which generation they are about.
    pub observed_generations: bool,
}

impl Strategy for DefinitionStrategy {
    fn prepare_for_create(&self, object: &mut Value) {
        if let Some(map) = object.as_map_mut() {
            map.insert("status", Map::new().into());
        }
        note_storage_version(object);
    }

    fn validate_create(&self, object: &Value) -> FieldErrors {
        validation::validate_create(object).into()
    }

    fn prepare_for_update(&self, object: &mut Value, _: &Value) {
        note_storage_version(object);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(object, old).into()
    }

    fn prepare_for_status_update(&self, object: &mut Value, old: &Value) {
        let said = |condition: &Value| condition.at(&["observedGeneration"]).is_some();
        let in_use = || old.list_at(&["status", "conditions"]).iter().any(said);
        if self.observed_generations || in_use() {
            return;
        }
        let conditions = object.at_mut(&["status", "conditions"]).and_then(Value::as_list_mut);
        for condition in conditions.into_iter().flatten().filter_map(Value::as_map_mut) {
            condition.remove("observedGeneration");
        }
    }

    fn validate_status_update(&self, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_status_update(object, old).into()
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut known = Vec::new();
        old.into_iter().for_each(|old| unrecognized_formats(old, &mut known));
        let mut formats = Vec::new();
        unrecognized_formats(object, &mut formats);
        formats.retain(|format| !known.contains(format));
        formats.iter().map(|format| format!("unrecognized format {}", quote(format))).collect()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn counts_generation(&self) -> bool {
        true
    }

    /// No garbage collection of dependents: the cleanup finalizer deletes the definition's objects, whatever the
    /// propagation policy.
    fn default_dependents(&self) -> Dependents {
        Dependents::Ignored
    }

    fn begin_delete(&self, object: &mut Value) -> bool {
        if !Definition(object).has_finalizer(CLEANUP_FINALIZER) {
            object.make_list(&["metadata"], "finalizers").push(CLEANUP_FINALIZER.into());
        }
        let pending = Condition::new(
            condition::TERMINATING,
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        );
        set_condition(object, &pending, Time::now(&self.clock));
        true
    }
}

/// Formats in a definition's schemas that this server does not check.
fn unrecognized_formats<'d>(definition: &'d Value, out: &mut Vec<&'d str>) {
    for version in definition.list_at(&["spec", "versions"]) {
        if let Some(schema) = version.at(&["schema", "openAPIV3Schema"]) {
            formats_of_schema(schema, out);
        }
    }
}

fn formats_of_schema<'d>(schema: &'d Value, out: &mut Vec<&'d str>) {
    let format = schema.str_at(&["format"]);
    let recognized = match schema.str_at(&["type"]) {
        "" | "string" => format::find(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if !format.is_empty() && !recognized && !out.contains(&format) {
        out.push(format);
    }
    for (name, below) in schema.as_map().into_iter().flat_map(Map::iter) {
        match name {
            "items" | "not" | "additionalProperties" | "additionalItems" => {
                formats_of_schema(below, out);
            }
            "properties" | "patternProperties" | "definitions" | "dependencies" => {
                let named = below.as_map().into_iter().flat_map(Map::iter);
                named.for_each(|(_, below)| formats_of_schema(below, out));
            }
            _ => {}
        }
        if matches!(name, "items" | "allOf" | "anyOf" | "oneOf") {
            let several = below.as_list().into_iter().flatten();
            several.for_each(|below| formats_of_schema(below, out));
        }
    }
}

/// Adds the storage version to `status.storedVersions`.
fn note_storage_version(object: &mut Value) {
    let Some(version) = Definition(object).storage_version().map(Value::from) else { return };
    let stored = object.make_list(&["status"], "storedVersions");
    if !stored.contains(&version) {
        stored.push(version);
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json;
    use kevel_registry::strategy::RESET_SPEC;

    use super::*;

    fn definition(properties: &str) -> Value {
        let text = format!(
            r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{{"properties":{properties}}}}}}}]}}}}"#
        );
        json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap().value
    }

    /// Labels and the like can be written with the status of a definition, and are owned by that write.
    #[test]
    fn status_writes_own_the_metadata_they_change() {
        let strategy = DefinitionStrategy { clock: Clock::system(), observed_generations: true };
        assert!(strategy.kept_by_status().is_empty());
        assert_eq!(strategy.reset_by_status(), RESET_SPEC);
    }

    /// Objects may be left in each version that ever was the storage version: none is forgotten, none is noted twice.
    #[test]
    fn versions_that_stored_objects_are_remembered() {
        let strategy = DefinitionStrategy { clock: Clock::system(), observed_generations: true };
        let definition = |storage: &str, stored: &[&str]| {
            let version =
                |name: &str| format!(r#"{{"name":"{name}","storage":{}}}"#, name == storage);
            let stored: Vec<_> = stored.iter().map(|name| format!(r#""{name}""#)).collect();
            let text = format!(
                r#"{{"spec":{{"versions":[{},{}]}},"status":{{"storedVersions":[{}]}}}}"#,
                version("v1"),
                version("v2"),
                stored.join(",")
            );
            json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap().value
        };
        let stored = |object: &Value| {
            let stored = object.list_at(&["status", "storedVersions"]).iter();
            stored.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        for (storage, before, created, updated) in [
            ("v1", &[][..], "v1", "v1"),
            ("v1", &["v1"], "v1", "v1"),
            ("v2", &["v1"], "v2", "v1 v2"),
            ("v1", &["v1", "v2"], "v1", "v1 v2"),
            ("v2", &["v1", "v2"], "v2", "v1 v2"),
        ] {
            let mut object = definition(storage, before);
            strategy.prepare_for_create(&mut object);
            assert_eq!(stored(&object), created, "{storage} {before:?}");
            let mut object = definition(storage, before);
            strategy.prepare_for_update(&mut object, &Value::Null);
            assert_eq!(stored(&object), updated, "{storage} {before:?}");
        }
    }

    #[test]
    fn new_unknown_formats_give_warnings() {
        let known = r#""a":{"type":"string","format":"date-time"},"b":{"type":"integer","format":"int64"},
            "c":{"format":"k8s-short-name"},"d":{"type":"number","format":"double"}"#;
        let unknown = r#""e":{"type":"array","items":{"type":"integer","format":"uint8"}},
            "f":{"anyOf":[{"type":"string","format":"x\"y"}]},"g":{"type":"boolean","format":"date"}"#;
        let some = definition(&format!("{{{known}}}"));
        let all = definition(&format!("{{{known},{unknown}}}"));
        let strategy = DefinitionStrategy { clock: Clock::system(), observed_generations: true };
        assert_eq!(strategy.warnings(&some, None), Vec::<String>::new());
        let expected = [
            r#"unrecognized format "uint8""#,
            r#"unrecognized format "x\"y""#,
            r#"unrecognized format "date""#,
        ];
        assert_eq!(strategy.warnings(&all, None), expected);
        assert_eq!(strategy.warnings(&all, Some(&some)), expected);
        assert_eq!(strategy.warnings(&all, Some(&all)), Vec::<String>::new());
    }
}
