//! Strategy of custom objects, in one version (upstream: customResourceStrategy).

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kevel_api::builtin;
use kevel_api::field_error::{FieldError, FieldErrors, Path};
use kevel_api::gvk::GroupVersionKind;
use kevel_api::name;
use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_api::warning::WarningList;
use kevel_codec::json;
use kevel_registry::resource::api_version;
use kevel_registry::strategy::{ALL_METADATA, RESET_ALL_BUT_STATUS, Strategy};

use super::rules::ObjectRules;
use crate::definition::{Definition, GROUP, Version};
use crate::scale::ScalePaths;
use crate::schema::{REQUEST_BUDGET, Validator, blocks_rules};
use crate::validation;

/// Strategy of custom objects.
pub struct CustomResource {
    kind: GroupVersionKind,
    namespaced: bool,
    /// Schema as text, because most custom resources in a cluster are written rarely or never.
    schema: Bytes,
    /// Validator, compiled at the first write.
    validator: OnceLock<Result<Validator, String>>,
    scale: Option<ScalePaths>,
    /// Selectable fields, in the order of the definition.
    selectable: Vec<String>,
    preserves_unknown: bool,
    /// Warning of a deprecated version.
    deprecation: Option<String>,
    /// Rules in Rust, of a server that embeds the kind.
    rules: Option<Arc<dyn ObjectRules>>,
}

impl std::fmt::Debug for CustomResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CustomResource({})", self.kind)
    }
}

/// Decodes a schema as the type of `openAPIV3Schema`.
fn read_schema(text: &[u8]) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::Map(Default::default()));
    }
    let field = |of: Schema<'static>, name: &str| of.field(name).map(|field| field.schema());
    let ty = builtin::schema(GROUP, "v1", "CustomResourceDefinition")
        .and_then(|definition| field(field(definition, "spec")?, "versions")?.item())
        .and_then(|version| field(field(version, "schema")?, "openAPIV3Schema"))
        .ok_or("schemas have no type")?;
    let read = json::decode(text, ty, json::Unknown::Ignore);
    read.map(|read| read.value).map_err(|error| error.to_string())
}

impl CustomResource {
    /// Makes the strategy of a version, whose schema is also given as text.
    pub fn new(
        definition: Definition<'_>,
        version: Version<'_>,
        schema: Bytes,
        deprecation: Option<String>,
    ) -> Self {
        let names = definition.accepted_names();
        CustomResource {
            kind: GroupVersionKind::new(definition.group(), version.name(), names.kind()),
            namespaced: definition.is_namespaced(),
            schema,
            validator: OnceLock::new(),
            scale: version.scale().map(ScalePaths::read),
            selectable: version.selectable_fields().map(str::to_owned).collect(),
            preserves_unknown: definition.preserves_unknown_fields(),
            deprecation,
            rules: None,
        }
    }

    /// Adds rules in Rust, which apply after those of the schema.
    #[must_use]
    pub fn with_rules(self, rules: Option<Arc<dyn ObjectRules>>) -> Self {
        CustomResource { rules, ..self }
    }

    /// Result of the rules in Rust, if there are any.
    fn ruled<T: Default>(&self, ask: impl FnOnce(&dyn ObjectRules) -> T) -> T {
        self.rules.as_deref().map(ask).unwrap_or_default()
    }

    /// Validator of objects; its error refuses every object.
    fn validator(&self) -> Result<&Validator, FieldError> {
        let read = || read_schema(&self.schema).and_then(|schema| Validator::new(&schema));
        let made = kevel_compute::filled(&self.validator, read);
        made.as_ref().map_err(|error| FieldError::internal(&Path::NONE, error))
    }

    /// Errors if `apiVersion` and `kind` are not those of the path: a patch may have changed them.
    fn check_kind(&self, object: &Value) -> FieldErrors {
        let wanted = api_version(&self.kind.group, &self.kind.version);
        let fields = [("kind", self.kind.kind.as_str()), ("apiVersion", wanted.as_str())];
        let wrong = fields.into_iter().filter(|(field, wanted)| object.str_at(&[field]) != *wanted);
        let error = |(field, wanted): (&str, &str)| {
            let said = object.str_at(&[field]);
            FieldError::invalid(&Path::new(field), said, format!("must be {wanted}"))
        };
        wrong.map(error).collect()
    }

    /// Validates an object; OpenAPI validation of a status update covers `status` alone. An object of another kind is
    /// not validated by OpenAPI, but by the other checks.
    fn check(&self, new: &Value, old: Option<&Value>, part: Part) -> FieldErrors {
        let mut errors = self.check_kind(new);
        let of_kind = errors.is_empty();
        let validator = match self.validator() {
            Ok(validator) => validator,
            Err(error) => return error.into(),
        };
        if of_kind {
            errors.extend(match (part, old) {
                (Part::Status, Some(old)) => validator.status(new, old),
                _ => validator.open_api(&Path::NONE, new, old),
            });
        }
        if let Some(scale) = self.scale.as_ref().filter(|_| of_kind) {
            if part == Part::Whole {
                errors.extend(scale.check_spec(new));
            }
            errors.extend(scale.check_status(new));
        }
        if part == Part::Whole {
            errors.extend(validator.embedded(&Path::NONE, new));
        }
        errors.extend(validator.lists(&Path::NONE, new, old));
        if validator.has_rules() {
            // Only blocks the rules: metadata validation reports the missing name.
            let name = Path::new("metadata");
            let unnamed = of_kind && new.str_at(&["metadata", "name"]).is_empty();
            let unnamed = unnamed.then(|| FieldError::required(&name.child("name"), ""));
            match blocks_rules(&errors).or_else(|| blocks_rules(unnamed.as_slice())) {
                Some(blocked) => errors.push(blocked),
                None => errors.extend(validator.rules(new, old, REQUEST_BUDGET)),
            }
        }
        errors
    }
}

/// Part of an object that a request writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    Status,
}

impl Strategy for CustomResource {
    fn is_of_kind(&self, object: &Value) -> bool {
        self.check_kind(object).is_empty()
    }

    fn prepare_for_create(&self, object: &mut Value) {
        self.ruled(|rules| rules.prepare_for_create(object));
    }

    fn validate_create(&self, object: &Value) -> FieldErrors {
        let mut errors = self.check(object, None, Part::Whole);
        errors.append(self.ruled(|rules| rules.validate_create(object)));
        errors
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value) {
        self.ruled(|rules| rules.prepare_for_update(object, old));
    }

    fn validate_update(&self, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.check(object, Some(old), Part::Whole);
        errors.append(self.ruled(|rules| rules.validate_update(object, old)));
        errors
    }

    fn validate_status_update(&self, object: &Value, old: &Value) -> FieldErrors {
        self.check(object, Some(old), Part::Status)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
            object.list_at(&["metadata", "finalizers"]).iter().filter_map(Value::as_str)
        }
        let before: BTreeSet<&str> = old.into_iter().flat_map(finalizers).collect();
        let now: BTreeSet<&str> = finalizers(object).collect();
        let mut warnings = WarningList::default();
        warnings
            .extend(now.difference(&before).flat_map(|finalizer| finalizer_warnings(finalizer)));
        let mut warnings = warnings.into_said();
        warnings.extend(self.ruled(|rules| rules.warnings(object, old)));
        warnings
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        &ALL_METADATA
    }

    fn reset_by_status(&self) -> &'static [&'static [&'static str]] {
        RESET_ALL_BUT_STATUS
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &[String] {
        &self.selectable
    }

    fn preserves_unknown(&self) -> bool {
        self.preserves_unknown
    }

    fn is_structural(&self) -> bool {
        read_schema(&self.schema).is_ok_and(|schema| validation::is_structural(&schema))
    }

    fn selectable<'f>(&self, field: &'f str) -> Option<&'f str> {
        let known = field == "metadata.name"
            || field == "metadata.namespace" && self.namespaced
            || self.selectable.iter().any(|known| known == field);
        known.then_some(field)
    }
}

/// Finalizers that need no domain prefix.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let mut problems = name::is_label_key(finalizer);
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        problems.push(format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
             other finalizer writers"
        ));
    }
    let quoted = kevel_api::quote::quote(finalizer);
    let warning = |problem| format!("metadata.finalizers: {quoted}: {problem}");
    problems.into_iter().map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        json::decode_any(text.as_bytes(), json::Unknown::Ignore).expect(text).value
    }

    fn strategy() -> CustomResource {
        let schema = r#"{"type":"object","properties":{
            "spec":{"type":"object",
                "properties":{
                    "size":{"type":"integer","maximum":9},
                    "tags":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}},
                "x-kubernetes-validations":[
                    {"rule":"!has(self.size) || self.size != 7","message":"not seven"},
                    {"rule":"!has(oldSelf.size) || has(self.size)","message":"sized"}]},
            "status":{"type":"object","properties":{"ready":{"type":"boolean"}}}}}"#;
        let definition = json(
            r#"{"spec":{"group":"e.com","scope":"Namespaced","versions":[{"name":"v1"}]},
                "status":{"acceptedNames":{"kind":"Widget"}}}"#,
        );
        let definition = Definition(&definition);
        let version = definition.versions().next().unwrap();
        CustomResource::new(definition, version, Bytes::from_static(schema.as_bytes()), None)
    }

    /// Paths of the errors of a write of `new` over `old`.
    fn errors(
        write: fn(&CustomResource, &Value, &Value) -> FieldErrors,
        old: &str,
        new: &str,
    ) -> String {
        let object = |spec: &str| {
            json(&format!(
                r#"{{"apiVersion":"e.com/v1","kind":"Widget","metadata":{{"name":"a"}},{spec}}}"#
            ))
        };
        let errors = write(&strategy(), &object(new), &object(old)).into_told();
        let errors: Vec<String> = errors.iter().map(|error| error.to_string()).collect();
        errors.join("; ")
    }

    #[test]
    fn every_check_belongs_to_every_write() {
        let create: fn(&CustomResource, &Value, &Value) -> FieldErrors =
            |strategy, new, _| strategy.validate_create(new);
        let update = CustomResource::validate_update;
        let status = CustomResource::validate_status_update;
        let (seven, unsized_) =
            (r#"spec: Invalid value: not seven"#, r#"spec: Invalid value: sized"#);
        let twice = r#"spec.tags[1]: Duplicate value: "x""#;
        let blocked = "<nil>: Invalid value: null: some validation rules were not checked because the \
                       object was invalid; correct the existing errors to complete validation";
        let large =
            "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9";
        let ready = r#"status.ready: Invalid value: "string": ready in body must be of type boolean: "string""#;
        let (none, whole) = (r#""spec":{}"#, r#""spec":{"size":1}"#);
        for (old, new, of_create, of_update, of_status) in [
            (none, whole, "", "", ""),
            (none, r#""spec":{"size":7}"#, seven, seven, seven),
            (r#""spec":{"size":7}"#, r#""spec":{"size":7}"#, seven, "", ""),
            // A rule about changes is for updates.
            (whole, none, "", unsized_, unsized_),
            (none, r#""spec":{"tags":["x","x"]}"#, twice, twice, twice),
            (r#""spec":{"tags":["x","x"]}"#, r#""spec":{"tags":["x","x"]}"#, twice, "", ""),
        ] {
            assert_eq!(errors(create, old, new), of_create, "create {new} over {old}");
            assert_eq!(errors(update, old, new), of_update, "update {new} over {old}");
            assert_eq!(errors(status, old, new), of_status, "status {new} over {old}");
        }
        // Rules see only objects of the schema.
        let (wrong, both) = (r#""spec":{"size":10}"#, r#""spec":{"size":"7","tags":[]}"#);
        assert_eq!(errors(create, none, wrong), large);
        let found = errors(create, none, both);
        assert!(found.ends_with(blocked), "{found}");
        assert!(!found.contains("not seven"), "{found}");
        let found = errors(status, none, r#""spec":{"size":7},"status":{"ready":"yes"}"#);
        assert!(found.starts_with(ready), "{found}");
    }
}
