//! Values in messages, as Go's `%v`, `%T` and `%#v` print them.

use std::fmt::{self, Write};

use kevel_api::quote::quote;
use kevel_api::value::Value;

/// Prints a value as `%v`: `map[a:1 b:[x <nil>]]`.
#[derive(Debug)]
pub struct Plain<'a>(pub &'a Value);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Bool(bool) => write!(f, "{bool}"),
            Value::Int(int) => write!(f, "{int}"),
            Value::Float(float) => f.write_str(&float_text(*float)),
            Value::String(text) => f.write_str(text),
            Value::Raw(text) => f.write_str(text),
            Value::List(items) => write!(f, "{}", PlainList(items)),
            Value::Map(map) => {
                f.write_str("map[")?;
                for (i, (key, value)) in map.iter().enumerate() {
                    let space = if i > 0 { " " } else { "" };
                    write!(f, "{space}{key}:{}", Plain(value))?;
                }
                f.write_char(']')
            }
        }
    }
}

/// Prints a list as `%v`.
pub(crate) struct PlainList<'a>(pub(crate) &'a [Value]);

impl fmt::Display for PlainList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (i, value) in self.0.iter().enumerate() {
            let space = if i > 0 { " " } else { "" };
            write!(f, "{space}{}", Plain(value))?;
        }
        f.write_char(']')
    }
}

/// Prints a value as `%#v`: `map[string]interface {}{"a":1}`.
pub(crate) struct Syntax<'a>(pub(crate) &'a Value);

impl fmt::Display for Syntax<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("interface {}(nil)"),
            Value::String(text) => f.write_str(&quote(text)),
            Value::List(items) => {
                f.write_str("[]interface {}{")?;
                for (i, value) in items.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{}", Syntax(value))?;
                }
                f.write_char('}')
            }
            Value::Map(map) => {
                f.write_str("map[string]interface {}{")?;
                for (i, (key, value)) in map.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{}:{}", quote(key), Syntax(value))?;
                }
                f.write_char('}')
            }
            other => Plain(other).fmt(f),
        }
    }
}

/// Go type of a value without a schema, as `%T` prints it.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) | Value::Raw(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) => "map[string]interface {}",
    }
}

/// Float as `%v` prints it: the shortest text, with an exponent from 1e+06 on and below 1e-04.
fn float_text(float: f64) -> String {
    let text = format!("{float:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json::{Unknown, decode_any};

    #[test]
    fn as_go_prints_them() {
        let cases = [
            (r#"{"b":[1,"x",null],"a":{"c":true}}"#, "map[a:map[c:true] b:[1 x <nil>]]"),
            ("[1.5,1000000.0,0.00001]", "[1.5 1e+06 1e-05]"),
        ];
        for (json, plain) in cases {
            let value = decode_any(json.as_bytes(), Unknown::Ignore).unwrap().value;
            assert_eq!(Plain(&value).to_string(), plain);
        }
        let value = decode_any(br#"{"a":["x",1]}"#, Unknown::Ignore).unwrap().value;
        let syntax = r#"map[string]interface {}{"a":[]interface {}{"x", 1}}"#;
        assert_eq!(Syntax(&value).to_string(), syntax);
    }
}
