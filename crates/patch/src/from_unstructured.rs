//! Conversion of a JSON tree to an object of a type, by the rules of the reference's converter (upstream:
//! FromUnstructured). Strategic merge patches and applied configurations go through it; it has other messages and other
//! leniency than the JSON decoder.

use kevel_api::schema::{Field, Scalar, Schema, Type, go_element_type};
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode, encode_any};

/// Converts a tree to a type in place: numbers without a fraction become integers, and integers lose the bits that the
/// type does not have.
///
/// ```
/// use kevel_api::{builtin, value::{Map, Value}};
/// let pod = builtin::schema("", "v1", "Pod").unwrap();
/// let mut tree = Value::Map(Map::from_iter([("spec", Value::from("x"))]));
/// let error = kevel_patch::from_unstructured(&mut tree, pod).unwrap_err();
/// assert_eq!(error, "cannot restore struct from: string");
/// ```
pub fn from_unstructured(tree: &mut Value, schema: Schema<'_>) -> Result<(), String> {
    convert(tree, schema, None)
}

/// Converts a value; `go` is its Go type, if the schema does not have it.
fn convert(tree: &mut Value, schema: Schema<'_>, go: Option<&str>) -> Result<(), String> {
    if tree.is_null() || matches!(tree, Value::Raw(_)) {
        return Ok(());
    }
    match schema.ty() {
        Type::Struct(_) => {
            let Some(object) = schema.as_struct() else { return Ok(()) };
            let kind = kind_of(tree);
            let Value::Map(map) = tree else {
                return Err(format!("cannot restore struct from: {kind}"));
            };
            // The reference reports the first field that does not fit, in the order of the Go struct.
            let mut fields: Vec<Field<'_>> = object.fields().collect();
            fields.sort_by_key(|field| field.rank());
            for field in fields {
                if let Some(value) = map.get_mut(field.name()) {
                    convert(value, field.schema(), field.go())?;
                }
            }
            Ok(())
        }
        Type::List { item, .. } => {
            let kind = kind_of(tree);
            let Value::List(items) = tree else {
                return Err(format!("cannot restore slice from {kind}"));
            };
            let go = go.and_then(|go| go_element_type(go, 1));
            items.iter_mut().try_for_each(|value| convert(value, schema.other(*item), go))
        }
        Type::Map { value, .. } => {
            let kind = kind_of(tree);
            let Value::Map(map) = tree else {
                return Err(format!("cannot restore map from {kind}"));
            };
            let go = go.and_then(|go| go_element_type(go, 1));
            map.iter_mut().try_for_each(|(_, entry)| convert(entry, schema.other(*value), go))
        }
        Type::Scalar(scalar) => convert_scalar(tree, *scalar, schema, go),
        Type::Union { .. } | Type::Any => Ok(()),
    }
}

fn convert_scalar(
    tree: &mut Value,
    scalar: Scalar,
    schema: Schema<'_>,
    go: Option<&str>,
) -> Result<(), String> {
    let kind = match scalar {
        Scalar::String => "string",
        Scalar::Bool => "bool",
        Scalar::Int32 => "int32",
        Scalar::Int64 => "int64",
        Scalar::Double => "float64",
        Scalar::Bytes if matches!(tree, Value::List(_)) => return byte_list(tree),
        Scalar::Bytes if !matches!(tree, Value::String(_)) => {
            return Err(format!("cannot restore slice from {}", kind_of(tree)));
        }
        Scalar::Bytes => {
            let read = convert_by_itself(tree, schema);
            return read.map_err(|error| format!("error decoding from json: {error}"));
        }
        // Types with their own JSON decoder decode the encoded tree.
        _ => return convert_by_itself(tree, schema),
    };
    let go = go.map_or(kind, |go| go.trim_start_matches('*'));
    let cannot = |from: &str| Err(format!("cannot convert {from} to {go}"));
    match (scalar, &*tree) {
        (Scalar::String, Value::String(_))
        | (Scalar::Bool, Value::Bool(_))
        | (Scalar::Int64, Value::Int(_))
        | (Scalar::Double, Value::Int(_) | Value::Float(_)) => Ok(()),
        #[allow(clippy::cast_possible_truncation)] // What Go's conversion does.
        (Scalar::Int32, Value::Int(number)) => {
            *tree = Value::Int(i64::from(*number as i32));
            Ok(())
        }
        (Scalar::String, Value::Int(_)) => cannot("int64"),
        (Scalar::Int32 | Scalar::Int64, Value::Float(number)) => {
            if number.fract() != 0.0 {
                return cannot("float64");
            }
            let whole = go_int(*number);
            #[allow(clippy::cast_possible_truncation)]
            let whole = if scalar == Scalar::Int32 { i64::from(whole as i32) } else { whole };
            *tree = Value::Int(whole);
            Ok(())
        }
        _ => Err(format!("unrecognized type: {kind}")),
    }
}

/// Checks bytes given as a list of numbers.
fn byte_list(tree: &Value) -> Result<(), String> {
    let numbers = tree.as_list().unwrap_or_default();
    match numbers.iter().all(|number| matches!(number, Value::Int(_) | Value::Null)) {
        true => Ok(()),
        false => Err("unrecognized type: uint8".to_owned()),
    }
}

/// Converts a number without a fraction to an integer as Go does: out of range, it becomes the smallest integer.
fn go_int(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    #[allow(clippy::cast_possible_truncation)]
    match (-LIMIT..LIMIT).contains(&number) {
        true => number as i64,
        false => i64::MIN,
    }
}

fn convert_by_itself(tree: &Value, schema: Schema<'_>) -> Result<(), String> {
    let mut text = Vec::new();
    encode_any(tree, &mut text);
    match decode(&text, schema, Unknown::Ignore) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Kind of a value in Go's `reflect`.
fn kind_of(tree: &Value) -> &'static str {
    match tree {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) | Value::Raw(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use kevel_api::builtin;
    use kevel_codec::json::decode_any;

    use super::*;

    #[test]
    fn what_does_not_fit_is_said_in_the_converters_words() {
        let pod = builtin::schema("", "v1", "Pod").unwrap();
        for (object, expected) in [
            (r#"{"spec":{"containers":[]}}"#, Ok(())),
            (r#"{"spec":[]}"#, Err("cannot restore struct from: slice")),
            (r#"{"metadata":{"labels":"x"}}"#, Err("cannot restore map from string")),
            (r#"{"spec":{"containers":"x"}}"#, Err("cannot restore slice from string")),
            (r#"{"metadata":{"uid":1}}"#, Err("cannot convert int64 to types.UID")),
            (r#"{"metadata":{"name":1}}"#, Err("cannot convert int64 to string")),
            (r#"{"metadata":{"name":true}}"#, Err("unrecognized type: string")),
            (r#"{"metadata":{"labels":{"a":{}}}}"#, Err("unrecognized type: string")),
            (r#"{"spec":{"hostNetwork":"x"}}"#, Err("unrecognized type: bool")),
            (r#"{"spec":{"priority":"x"}}"#, Err("unrecognized type: int32")),
            (r#"{"spec":{"priority":1.5}}"#, Err("cannot convert float64 to int32")),
            (r#"{"spec":{"priority":2.0}}"#, Ok(())),
            (r#"{"spec":{"priority":4294967296}}"#, Ok(())),
            (r#"{"spec":{"priority":9223372036854775808}}"#, Ok(())),
            (r#"{"spec":{"hostAliases":[{"ip":1}]}}"#, Err("cannot convert int64 to string")),
            (r#"{"spec":{"restartPolicy":1}}"#, Err("cannot convert int64 to v1.RestartPolicy")),
        ] {
            let mut tree = decode_any(object.as_bytes(), Unknown::Ignore).unwrap().value;
            let converted = from_unstructured(&mut tree, pod);
            assert_eq!(converted, expected.map_err(str::to_owned), "{object}");
        }
    }
}
