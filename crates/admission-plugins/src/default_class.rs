//! Default class of objects that name none: the newest class marked as the default by annotation.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_controlplane::lister::{Facts, Lister};
use kevel_store::cache::At;

/// Suffix of the annotations that mark a class as the default.
const DEFAULT_SUFFIX: &str = "/is-default-class";

/// Facts about a class that decide whether it is the default.
#[derive(Debug)]
pub(super) struct ClassDefaults {
    pub name: String,
    created: String,
    /// Annotations ending in [`DEFAULT_SUFFIX`] with the value `true`.
    said_by: Vec<String>,
}

impl Facts for ClassDefaults {
    fn read(class: &Value) -> Self {
        let annotations = class.at(&["metadata", "annotations"]).and_then(Value::as_map);
        let annotations = annotations.into_iter().flat_map(Map::iter);
        let says = annotations
            .filter(|(key, value)| key.ends_with(DEFAULT_SUFFIX) && value.as_str() == Some("true"));
        ClassDefaults {
            name: class.str_at(&["metadata", "name"]).to_owned(),
            created: class.str_at(&["metadata", "creationTimestamp"]).to_owned(),
            said_by: says.map(|(key, _)| key.to_owned()).collect(),
        }
    }
}

/// The newest class with one of these annotations; among classes of the same age, the first by name.
pub(super) async fn default_class(
    classes: &Lister<ClassDefaults>,
    annotations: &[&str],
) -> Result<Option<Arc<ClassDefaults>>, StatusError> {
    let mut defaults = classes.list("", At::Any).await?;
    defaults.retain(|class| annotations.iter().any(|key| class.said_by.iter().any(|by| by == key)));
    Ok(defaults.into_iter().min_by(|one, other| {
        other.created.cmp(&one.created).then_with(|| one.name.cmp(&other.name))
    }))
}
