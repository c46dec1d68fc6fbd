//! Parser of the JSON constants in the tables of built-in kinds.

use thin_vec::ThinVec;

use crate::value::{Map, Value};

/// Parses JSON without white space, escapes or fractions, which tables do not have.
pub(crate) fn parse(text: &str) -> Option<Value> {
    let (value, rest) = value(text)?;
    rest.is_empty().then_some(value)
}

fn value(text: &str) -> Option<(Value, &str)> {
    match text.as_bytes().first()? {
        b'{' => {
            let mut map = Map::new();
            let rest = sequence(&text[1..], '}', |text| {
                let (key, rest) = string(text)?;
                let (value, rest) = value(rest.strip_prefix(':')?)?;
                map.insert(key, value);
                Some(rest)
            })?;
            Some((Value::Map(map), rest))
        }
        b'[' => {
            let mut list = ThinVec::new();
            let rest = sequence(&text[1..], ']', |text| {
                let (value, rest) = value(text)?;
                list.push(value);
                Some(rest)
            })?;
            Some((Value::List(list), rest))
        }
        b'"' => string(text).map(|(s, rest)| (s.into(), rest)),
        b't' => Some((Value::Bool(true), text.strip_prefix("true")?)),
        b'f' => Some((Value::Bool(false), text.strip_prefix("false")?)),
        b'n' => Some((Value::Null, text.strip_prefix("null")?)),
        _ => {
            let end = text.find([',', '}', ']']).unwrap_or(text.len());
            Some((Value::Int(text[..end].parse().ok()?), &text[end..]))
        }
    }
}

/// Parses elements between commas up to `end`; returns the rest of the text.
fn sequence<'t>(
    mut text: &'t str,
    end: char,
    mut element: impl FnMut(&'t str) -> Option<&'t str>,
) -> Option<&'t str> {
    if let Some(rest) = text.strip_prefix(end) {
        return Some(rest);
    }
    loop {
        text = element(text)?;
        match text.strip_prefix(',') {
            Some(rest) => text = rest,
            None => return text.strip_prefix(end),
        }
    }
}

fn string(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('"')?.split_once('"')
}

/// Parses JSON with white space, for tests.
#[cfg(test)]
pub(crate) fn json(text: &str) -> Value {
    let mut quoted = false;
    let keep = |c: &char| {
        quoted ^= *c == '"';
        quoted || !c.is_whitespace()
    };
    let text: String = text.chars().filter(keep).collect();
    parse(&text).unwrap_or_else(|| panic!("{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tables_hold() {
        let value = parse(r#"{"a":[1,-2,{"b":"c d"}],"e":{},"f":[],"g":true}"#).unwrap();
        assert_eq!(value.at(&["a"]).and_then(Value::as_list).map(<[_]>::len), Some(3));
        assert_eq!(value.at(&["e"]), Some(&Value::Map(Map::new())));
        assert_eq!(value.at(&["g"]), Some(&Value::Bool(true)));
        for wrong in ["", "{", "{}x", "[1,]", r#"{"a"}"#, "1.5", "\"a"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
