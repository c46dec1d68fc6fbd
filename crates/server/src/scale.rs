//! How many there are of something: the `scale` subresource, a view on its object.

use kevel_api::gvk::GroupVersionKind;
use kevel_api::selector::label::LabelSelector;
use kevel_api::value::{Map, Value};

use crate::columns::Columns;

/// Where a kind's objects say how many they want and have, and how that is written and shown.
#[derive(Clone)]
pub struct Scale {
    /// `spec`, `replicas`
    pub wanted: Vec<String>,
    /// `status`, `replicas`
    pub there: Vec<String>,
    /// How its pods are found.
    pub selector: Selector,
    /// Whether a scale is checked by itself: the count is not negative, and a UID is the object's. Where it
    /// is not, the rules of the object say what may be written.
    pub checked: bool,
    /// What people see of a scale.
    pub columns: &'static dyn Columns,
}

impl std::fmt::Debug for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scale").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

/// Where a kind's objects say which objects are counted.
#[derive(Clone, Debug)]
pub enum Selector {
    /// The kind has no pods.
    None,
    /// A `LabelSelector`.
    Object(Vec<String>),
    /// Labels and their values.
    Labels(Vec<String>),
    /// The selector's text.
    Text(Vec<String>),
}

/// The metadata that an object's scale has, too.
const SHARED: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

impl Scale {
    /// The scale of an object. Wrong selectors are told as the reference tells them.
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

    /// Makes an object want as many as a scale says.
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
