//! Query parameters decoded into an object by its type (upstream: `ParameterCodec.DecodeParameters`).

use kevel_api::schema::{Scalar, Schema};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};

use kevel_registry::list_options::{parse_int, parse_uint, truthy};

/// Go's zero time, for a parameter that is not a valid time.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// Decodes parameters into the fields of a type, in field order. A field that is not a list takes the first of several
/// values. The error is shown to the client.
pub(super) fn decode_parameters(
    query: &[(String, String)],
    schema: Schema<'_>,
) -> Result<Map, String> {
    let mut object = Map::new();
    let fields = schema.as_struct().map(|ty| ty.fields_in_order()).unwrap_or_default();
    for field in fields {
        let all = || query.iter().filter(|(key, _)| key == field.name()).map(|(_, text)| &**text);
        let Some(first) = all().next() else { continue };
        let value = match field.schema().item() {
            Some(item) => list(all(), item.scalar())?,
            None => scalar(first, field.schema().scalar())?,
        };
        // Zero values of non-pointer fields are left out, as absent.
        if field.pointer() || !is_zero(&value) {
            object.insert(field.name(), value);
        }
    }
    Ok(object)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(set) => !set,
        Value::Int(number) => *number == 0,
        value => value.is_empty(),
    }
}

fn list<'q>(all: impl Iterator<Item = &'q str>, item: Option<Scalar>) -> Result<Value, String> {
    let items: Result<Vec<Value>, String> = match item {
        Some(Scalar::Int32) => all.flat_map(|text| text.split(',')).map(port).collect(),
        _ => Ok(all.map(Value::from).collect()),
    };
    Ok(Value::List(items?.into_iter().collect()))
}

/// Parses a port: the only lists of numbers in options are lists of ports.
fn port(text: &str) -> Result<Value, String> {
    let number = parse_uint(text).and_then(|number| match u16::try_from(number) {
        Ok(port) => Ok(Value::Int(port.into())),
        Err(_) => Err(format!(
            "strconv.ParseUint: parsing {}: value out of range",
            kevel_api::quote::quote(text)
        )),
    });
    number.map_err(|error| format!("cannot convert to []int32: {error}"))
}

fn scalar(text: &str, ty: Option<Scalar>) -> Result<Value, String> {
    Ok(match ty {
        Some(Scalar::Bool) => Value::Bool(truthy(text)),
        Some(Scalar::Int32 | Scalar::Int64) => Value::Int(parse_int(text)?),
        Some(Scalar::Time) if matches!(text, "" | "null") => ZERO_TIME.into(),
        Some(Scalar::Time) => {
            let time: Time = text.parse().map_err(|error| format!("{error}"))?;
            time.to_string().as_str().into()
        }
        _ => text.into(),
    })
}

#[cfg(test)]
mod tests {
    use kevel_api::builtin;
    use kevel_codec::json;

    use super::*;

    #[test]
    fn a_query_is_an_object() {
        for (kind, query, expected) in [
            (
                "PodExecOptions",
                "stdin=1&tty=false&stdout=&command=a&command=b&container=c&container=d&x=y",
                r#"{"command":["a","b"],"container":"c","stdin":true,"stdout":true}"#,
            ),
            ("PodExecOptions", "stdin=0&container=", "{}"),
            ("PodPortForwardOptions", "ports=80,443&ports=1", r#"{"ports":[80,443,1]}"#),
            (
                "PodPortForwardOptions",
                "ports=x",
                r#"cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax"#,
            ),
            (
                "PodPortForwardOptions",
                "ports=70000",
                r#"cannot convert to []int32: strconv.ParseUint: parsing "70000": value out of range"#,
            ),
            (
                "PodLogOptions",
                "tailLines=0&sinceTime=2026-01-02T03:04:05%2B01:00",
                r#"{"sinceTime":"2026-01-02T02:04:05Z","tailLines":0}"#,
            ),
            ("PodLogOptions", "tailLines=x", r#"strconv.ParseInt: parsing "x": invalid syntax"#),
        ] {
            let schema = builtin::schema("", "v1", kind).unwrap();
            let found = decode_parameters(&kevel_registry::query::pairs(query), schema);
            let found = match found {
                Ok(object) => {
                    let mut text = Vec::new();
                    json::encode_any(&object.into(), &mut text);
                    String::from_utf8(text).unwrap()
                }
                Err(error) => error,
            };
            assert_eq!(found, expected, "{kind} {query}");
        }
    }
}
