//! The `scale` subresource, a view of its object.

use kevel_api::gvk::GroupVersionKind;
use kevel_api::selector::label::LabelSelector;
use kevel_api::value::{Map, Value};

use crate::columns::Columns;

/// Paths of a kind's replicas and selector, and rules of its Scale.
#[derive(Clone)]
pub struct Scale {
    /// Path of the wanted replicas: `spec`, `replicas`.
    pub wanted: Vec<String>,
    /// Path of the observed replicas: `status`, `replicas`.
    pub there: Vec<String>,
    /// Selector of the kind's pods.
    pub selector: Selector,
    /// Whether the Scale itself is validated: replicas are not negative, and a UID is the object's. If not, the
    /// object's own validation applies.
    pub checked: bool,
    /// Columns of the Scale's Tables.
    pub columns: &'static dyn Columns,
}

impl std::fmt::Debug for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scale").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

/// Path and form of a kind's pod selector.
#[derive(Clone, Debug)]
pub enum Selector {
    /// The kind has no pods.
    None,
    /// A `LabelSelector`.
    Object(Vec<String>),
    /// A map of labels.
    Labels(Vec<String>),
    /// A selector as text.
    Text(Vec<String>),
}

/// Metadata fields that a Scale shares with its object.
const SHARED: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

impl Scale {
    /// The Scale of an object. The error of an invalid selector is the reference's.
    pub fn of(&self, object: &Value, kind: &GroupVersionKind) -> Result<Value, String> {
        let shared = SHARED.into_iter().filter_map(|name| {
            let value = object.at(&["metadata", name])?;
            Some((name, value.clone()))
        });
        let count = |path: &[String]| find(object, path).cloned().filter(|count| !count.is_empty());
        let spec = count(&self.wanted).map(|count| ("replicas", count));
        let status = [
            count(&self.there).map(|count| ("replicas", count)),
            Some(self.selector(object)?)
                .filter(|selector| !selector.is_empty())
                .map(|selector| ("selector", Value::from(selector.as_str()))),
        ];
        let api_version = kind.group_version().to_string();
        Ok(Value::Map(Map::from_iter([
            ("apiVersion", Value::from(api_version.as_str())),
            ("kind", Value::from(kind.kind.as_str())),
            ("metadata", Map::from_iter(shared).into()),
            ("spec", Map::from_iter(spec).into()),
            ("status", Map::from_iter(status.into_iter().flatten()).into()),
        ])))
    }

    /// Sets the object's replicas to those of a Scale.
    pub fn set(&self, object: &mut Value, scale: &Value) {
        let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_int).unwrap_or(0);
        let Some((last, path)) = self.wanted.split_last() else { return };
        let mut place = object;
        for name in path {
            let Some(map) = place.as_map_mut() else { return };
            place = map.entry_or_insert_with(name, || Map::new().into());
        }
        if let Some(map) = place.as_map_mut() {
            map.insert(last.as_str(), Value::Int(replicas));
        }
    }

    fn selector(&self, object: &Value) -> Result<String, String> {
        Ok(match &self.selector {
            Selector::None => String::new(),
            Selector::Text(path) => {
                find(object, path).and_then(Value::as_str).unwrap_or_default().to_owned()
            }
            Selector::Object(path) => {
                let selector = LabelSelector::from_value(find(object, path));
                selector.map_err(|error| error.to_string())?.to_string()
            }
            Selector::Labels(path) => {
                let labels = find(object, path).and_then(Value::as_map);
                let labels = labels.into_iter().flat_map(Map::iter);
                let pairs =
                    labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")));
                pairs.collect::<Vec<_>>().join(",")
            }
        })
    }
}

fn find<'v>(object: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, name| value.as_map()?.get(name))
}
