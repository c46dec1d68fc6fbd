//! `scale` subresource of custom objects, at the paths that the definition names.

use kevel_api::field_error::{FieldError, Path};
use kevel_api::value::Value;
use kevel_patch::go_format::{Plain, go_type};
use kevel_registry::scale::{Scale, Selector};

use crate::columns::CustomScaleColumns;

/// JSON paths of the `scale` subresource, such as `.spec.replicas`.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    spec: String,
    status: String,
    selector: Option<String>,
}

impl ScalePaths {
    /// Reads `subresources.scale` of a version.
    pub fn read(scale: &Value) -> Self {
        let text = |field| scale.str_at(&[field]).to_owned();
        ScalePaths {
            spec: text("specReplicasPath"),
            status: text("statusReplicasPath"),
            selector: scale.at(&["labelSelectorPath"]).and_then(Value::as_str).map(str::to_owned),
        }
    }

    /// Scale subresource with these paths.
    pub fn scale(&self) -> Scale {
        let selector = self.selector.as_deref().filter(|path| !path.is_empty());
        Scale {
            wanted: owned(&self.spec),
            there: owned(&self.status),
            selector: selector.map_or(Selector::None, |path| Selector::Text(owned(path))),
            checked: false,
            columns: &CustomScaleColumns,
        }
    }

    /// Error of `specReplicasPath` in an object.
    pub fn check_spec(&self, object: &Value) -> Option<FieldError> {
        check_count(object, &self.spec)
    }

    /// Errors of `statusReplicasPath` and `labelSelectorPath` in an object.
    pub fn check_status(&self, object: &Value) -> Vec<FieldError> {
        let mut errors: Vec<FieldError> = check_count(object, &self.status).into_iter().collect();
        if let Some(path) = &self.selector {
            let found = find(object, path);
            let text = found.and_then(|found| match found {
                None | Some(Value::String(_)) => Ok(()),
                Some(other) => Err(wrong_type(path, other, "string")),
            });
            errors.extend(text.err().map(|why| FieldError::invalid(&Path::new(path), "", why)));
        }
        errors
    }
}

fn check_count(object: &Value, path: &str) -> Option<FieldError> {
    let invalid = |count: i64, why: String| Some(FieldError::invalid(&Path::new(path), count, why));
    match find(object, path) {
        Err(why) => invalid(0, why),
        Ok(None) => None,
        Ok(Some(Value::Int(count))) if *count < 0 => {
            invalid(*count, "should be a non-negative integer".to_owned())
        }
        Ok(Some(Value::Int(count))) if *count > i64::from(i32::MAX) => {
            invalid(*count, format!("should be less than or equal to {}", i32::MAX))
        }
        Ok(Some(Value::Int(_))) => None,
        Ok(Some(other)) => invalid(0, wrong_type(path, other, "int64")),
    }
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

fn owned(path: &str) -> Vec<String> {
    steps(path).map(str::to_owned).collect()
}

/// Value at a path; an error if a step leads through a value that is not an object.
fn find<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut value = object;
    let mut gone = String::new();
    for step in steps(path) {
        gone = format!("{gone}.{step}");
        match value {
            Value::Null => return Ok(None),
            Value::Map(map) => match map.get(step) {
                Some(inner) => value = inner,
                None => return Ok(None),
            },
            other => return Err(wrong_type(&gone, other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn wrong_type(path: &str, value: &Value, expected: &str) -> String {
    let path = path.strip_prefix('.').unwrap_or(path);
    format!(
        ".{path} accessor error: {} is of the type {}, expected {expected}",
        Plain(value),
        go_type(value)
    )
}
