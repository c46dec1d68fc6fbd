//! The rules of custom objects, in one version of their kind.

use std::sync::OnceLock;

use bytes::Bytes;
use kevel_api::builtin;
use kevel_api::field_error::{BadValue, FieldError, FieldErrorKind, Path};
use kevel_api::gvk::GroupVersionKind;
use kevel_api::name;
use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_server::resource::api_version;
use kevel_server::strategy::Strategy;

use crate::definition::{Definition, GROUP, Version};
use crate::scale::ScalePaths;
use crate::schema::{REQUEST_BUDGET, Validator};

/// The rules of custom objects.
#[derive(Debug)]
pub struct CustomResource {
    kind: GroupVersionKind,
    namespaced: bool,
    has_status: bool,
    /// The schema as text: most kinds of a cluster are written rarely or never.
    schema: Bytes,
    validators: OnceLock<Result<Validators, String>>,
    scale: Option<ScalePaths>,
    selectable: Vec<String>,
}

/// What judges objects, made when the first one is written.
#[derive(Debug)]
struct Validators {
    whole: Validator,
    /// Whether the schema has rules.
    ruled: bool,
    /// What judges the status alone, where the status is written alone and has a schema.
    status: Option<Validator>,
}

impl Validators {
    fn read(schema: &[u8], has_status: bool) -> Result<Self, String> {
        let schema = match schema.is_empty() {
            true => Value::Map(Default::default()),
            false => read_schema(schema)?,
        };
        let status = schema.at(&["properties", "status"]).filter(|_| has_status);
        Ok(Validators {
            whole: Validator::new(&schema)?,
            ruled: has_rules(&schema),
            status: status.map(Validator::new).transpose()?,
        })
    }
}

/// A schema as it stands in a definition.
fn read_schema(text: &[u8]) -> Result<Value, String> {
    let field = |of: Schema<'static>, name: &str| of.field(name).map(|field| field.schema());
    let ty = builtin::schema(GROUP, "v1", "CustomResourceDefinition")
        .and_then(|definition| field(field(definition, "spec")?, "versions")?.item())
        .and_then(|version| field(field(version, "schema")?, "openAPIV3Schema"))
        .ok_or("schemas have no type")?;
    let read = json::decode(text, ty, json::Unknown::Ignore);
    read.map(|read| read.value).map_err(|error| error.to_string())
}

impl CustomResource {
    /// The rules of a version, whose schema is given as text, too.
    pub fn new(definition: Definition<'_>, version: Version<'_>, schema: Bytes) -> Self {
        let names = definition.accepted_names();
        CustomResource {
            kind: GroupVersionKind::new(definition.group(), version.name(), names.kind()),
            namespaced: definition.is_namespaced(),
            has_status: version.has_status(),
            schema,
            validators: OnceLock::new(),
            scale: version.scale().map(ScalePaths::read),
            selectable: version.selectable_fields().map(str::to_owned).collect(),
        }
    }

    /// What judges objects; the error refuses them all.
    fn validators(&self) -> Result<&Validators, Vec<FieldError>> {
        let made = self.validators.get_or_init(|| Validators::read(&self.schema, self.has_status));
        made.as_ref().map_err(|error| vec![FieldError::internal(&Path::NONE, error)])
    }

    /// The kind of an object is the one that the path names, whatever a patch has made of it.
    fn check_kind(&self, object: &Value) -> Vec<FieldError> {
        let wanted = api_version(&self.kind.group, &self.kind.version);
        let fields = [("kind", self.kind.kind.as_str()), ("apiVersion", wanted.as_str())];
        let wrong = fields.into_iter().filter(|(field, wanted)| object.str_at(&[field]) != *wanted);
        let error = |(field, wanted): (&str, &str)| {
            let said = object.str_at(&[field]);
            FieldError::invalid(&Path::new(field), said, format!("must be {wanted}"))
        };
        wrong.map(error).collect()
    }

    /// Adds what the rules say, unless the object is so wrong that they would not make sense.
    fn rules(
        &self,
        mut errors: Vec<FieldError>,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        let Ok(validators) = self.validators() else { return errors };
        if !validators.ruled {
            return errors;
        }
        use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        let blocks = |error: &FieldError| {
            matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
        };
        if errors.iter().any(blocks) {
            let null = BadValue::Text("null".to_owned());
            let why = "some validation rules were not checked because the object was invalid; \
                       correct the existing errors to complete validation";
            errors.push(FieldError::invalid(&Path::NONE, null, why));
        } else {
            errors.extend(validators.whole.rules(new, old, REQUEST_BUDGET));
        }
        errors
    }

    fn check(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let wrong = self.check_kind(new);
        if !wrong.is_empty() {
            return wrong;
        }
        let validators = match self.validators() {
            Ok(validators) => validators,
            Err(errors) => return errors,
        };
        let mut errors = validators.whole.validate(&Path::NONE, new, old);
        if let Some(scale) = &self.scale {
            errors.extend(scale.check_spec(new));
            errors.extend(scale.check_status(new));
        }
        self.rules(errors, new, old)
    }
}

impl Strategy for CustomResource {
    fn check_create(&self, object: &Value) -> Vec<FieldError> {
        self.check(object, None)
    }

    fn check_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        self.check(object, Some(old))
    }

    fn check_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let wrong = self.check_kind(object);
        if !wrong.is_empty() {
            return wrong;
        }
        let validators = match self.validators() {
            Ok(validators) => validators,
            Err(errors) => return errors,
        };
        let mut errors = Vec::new();
        if let (Some(validator), Some(status)) = (&validators.status, object.at(&["status"])) {
            let path = Path::new("status");
            errors.extend(validator.validate(&path, status, old.at(&["status"])));
        }
        if let Some(scale) = &self.scale {
            errors.extend(scale.check_status(object));
        }
        self.rules(errors, object, Some(old))
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let path = ["metadata", "finalizers"];
        let before = old.map_or(&[][..], |old| old.list_at(&path));
        let new = object.list_at(&path).iter().filter(|finalizer| !before.contains(finalizer));
        let mut new: Vec<&str> = new.filter_map(Value::as_str).collect();
        new.sort_unstable();
        new.dedup();
        new.into_iter().flat_map(finalizer_warnings).collect()
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn selectable<'f>(&self, field: &'f str) -> Option<&'f str> {
        let known = field == "metadata.name"
            || field == "metadata.namespace" && self.namespaced
            || self.selectable.iter().any(|known| known == field);
        known.then_some(field)
    }
}

/// Finalizers that need no domain.
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

/// Whether a schema has rules, in any depth.
fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Map(map) => map.iter().any(|(key, value)| {
            key == "x-kubernetes-validations" && !value.is_empty() || has_rules(value)
        }),
        Value::List(list) => list.iter().any(has_rules),
        _ => false,
    }
}
