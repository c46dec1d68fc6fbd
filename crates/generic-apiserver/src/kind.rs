//! A served kind: its definition and its rules in Rust.

use std::sync::Arc;

use kevel_api::value::{Map, Value};
use kevel_api::{builtin, default};
use kevel_codec::{json, yaml};
use kevel_extensions::RestOptions;
use kevel_extensions::definition::Definition;
use kevel_extensions::rows::rows;
use kevel_extensions::strategy::ObjectRules;
use kevel_extensions::validation;
use kevel_registry::resource::Resource;

use crate::error::ApiServerError;

/// A kind of a [`GenericApiServer`](crate::GenericApiServer).
#[derive(Clone)]
pub struct ApiKind {
    /// The CustomResourceDefinition, with its names accepted.
    definition: Value,
    rules: Option<Arc<dyn ObjectRules>>,
}

impl std::fmt::Debug for ApiKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiKind({})", self.name())
    }
}

impl ApiKind {
    /// A kind from a CustomResourceDefinition in YAML or JSON, validated as the API validates one.
    ///
    /// ```
    /// use kevel_generic_apiserver::ApiKind;
    /// let error = ApiKind::from_yaml("metadata: {name: cats}").unwrap_err();
    /// assert!(error.to_string().contains("spec.group: Required value"), "{error}");
    /// ```
    pub fn from_yaml(text: &str) -> Result<Self, ApiServerError> {
        let group = "apiextensions.k8s.io";
        let decode = |reason: &dyn ToString| ApiServerError::Decode(reason.to_string());
        let schema = builtin::schema(group, "v1", "CustomResourceDefinition")
            .ok_or_else(|| decode(&"definitions have no type"))?;
        let decoded = yaml::decode(text.as_bytes(), schema, json::Unknown::Report);
        let decoded = decoded.map_err(|error| decode(&error))?;
        if let Some(problem) = decoded.strict.first() {
            return Err(decode(problem));
        }
        let mut definition = decoded.value;
        default::apply(&mut definition, schema);
        let errors = validation::validate_create(&definition);
        if !errors.is_empty() {
            let name = definition.str_at(&["metadata", "name"]).to_owned();
            return Err(ApiServerError::Invalid { name, errors: errors.into() });
        }
        accept_names(&mut definition);
        Ok(ApiKind { definition, rules: None })
    }

    /// Adds rules in Rust, which apply after those of the schema.
    #[must_use]
    pub fn with_rules(self, rules: impl ObjectRules) -> Self {
        ApiKind { rules: Some(Arc::new(rules)), ..self }
    }

    /// Name of the definition, such as `flunders.wardle.example.com`.
    pub fn name(&self) -> &str {
        Definition(&self.definition).name()
    }

    /// Rows of all served versions, over one storage.
    pub(crate) fn rows(&self, options: &RestOptions) -> Result<Vec<Resource>, ApiServerError> {
        let rows = rows(Definition(&self.definition), options, self.rules.as_ref());
        rows.map_err(|reason| ApiServerError::Kind { name: self.name().to_owned(), reason })
    }
}

/// Accepts the names of the spec, as the naming controller of a cluster does: nothing else has them here.
fn accept_names(definition: &mut Value) {
    let Some(names) = definition.at(&["spec", "names"]).cloned() else { return };
    let status = Map::from_iter([("acceptedNames", names)]);
    if let Some(definition) = definition.as_map_mut() {
        definition.insert("status", status.into());
    }
}
