//! Decoding of JSON patches: strictly as a list of structs, otherwise as a list of arbitrary objects.

use kevel_api::value::{Map, Value};
use kevel_codec::json::{MAX_STRICT_ERRORS, StrictError, StrictProblem, Unknown, decode_any};

use super::{Error, MAX_OPERATIONS, Operation, Patch};
use crate::merge_patch::json_kind;

/// String fields of an operation.
const STRINGS: [&str; 3] = ["op", "path", "from"];
const VALUE: &str = "value";

impl Patch {
    /// Decodes a patch. With [`Unknown::Report`], unknown and duplicate fields are returned too; their messages are
    /// meant to follow `json patch `.
    pub fn decode(patch: &[u8], fields: Unknown) -> Result<(Patch, Vec<StrictError>), Error> {
        let strict = fields == Unknown::Report;
        let error = |message: String| match strict {
            true => Error::Decode(format!("error decoding patch: {message}")),
            false => Error::Decode(message),
        };
        let read = decode_any(patch, fields).map_err(|reason| error(reason.to_string()))?;
        if let Some(message) = mismatch(&read.value, strict) {
            return Err(error(message));
        }
        let items = match read.value {
            Value::List(items) => items,
            _ => Default::default(),
        };
        if items.len() > MAX_OPERATIONS {
            return Err(Error::TooManyOperations(items.len()));
        }
        let mut problems = if strict { unknown_fields(&items) } else { Vec::new() };
        problems.extend(read.strict);
        problems.truncate(MAX_STRICT_ERRORS);
        Ok((Patch { operations: items.into_iter().map(Operation::from).collect() }, problems))
    }
}

/// Go's error for the first value of a wrong type. In strict mode that is the type of the server, otherwise that of the
/// library, which checks the fields only when it applies them.
fn mismatch(patch: &Value, strict: bool) -> Option<String> {
    let (patch_type, operation_type) = match strict {
        true => ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
        false => ("jsonpatch.Patch", "jsonpatch.Operation"),
    };
    let found = |value: &Value, go: &str| {
        Some(format!("json: cannot unmarshal {} into Go {go}", json_kind(value)))
    };
    match patch {
        Value::Null => None,
        Value::List(items) => items.iter().find_map(|item| match item {
            Value::Null => None,
            Value::Map(map) if strict => STRINGS.iter().find_map(|name| {
                let other = map.get(name).filter(|v| v.as_str().is_none() && !v.is_null())?;
                found(other, &format!("struct field jsonPatchOp.{name} of type string"))
            }),
            Value::Map(_) => None,
            other => found(other, &format!("value of type {operation_type}")),
        }),
        other => found(other, &format!("value of type {patch_type}")),
    }
}

fn unknown_fields(items: &[Value]) -> Vec<StrictError> {
    let maps = items.iter().enumerate().filter_map(|(i, item)| Some((i, item.as_map()?)));
    let keys = maps.flat_map(|(i, map): (usize, &Map)| map.iter().map(move |(key, _)| (i, key)));
    let unknown = keys.filter(|(_, key)| !STRINGS.contains(key) && *key != VALUE);
    let error =
        |(i, key)| StrictError { problem: StrictProblem::Unknown, path: format!("[{i}].{key}") };
    unknown.take(MAX_STRICT_ERRORS).map(error).collect()
}
