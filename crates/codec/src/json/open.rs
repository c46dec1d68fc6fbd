//! Documents decoded by level: deeper parts stay text.

use compact_str::CompactString;
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::MAX_DEPTH;
use super::scan::{Scanner, Stop};

/// Decodes a compact document by one level: an object by its keys, a list by its elements, whose values stay text
/// ([`Value::Raw`]) except `null`. Any other document, also invalid JSON, stays text itself.
///
/// ```
/// use kevel_codec::json::{encode_any, open};
/// let mut out = Vec::new();
/// encode_any(&open(r#"{"b":{"z":1.0,"a":1e3},"a":null}"#), &mut out);
/// assert_eq!(out, br#"{"a":null,"b":{"z":1.0,"a":1e3}}"#);
/// ```
pub fn open(text: &str) -> Value {
    opened(text, 1)
}

/// Decodes a compact document on all levels: only scalars stay text.
pub fn open_all(text: &str) -> Value {
    opened(text, MAX_DEPTH)
}

fn opened(text: &str, levels: usize) -> Value {
    let mut scan = Scanner::new(text);
    value(&mut scan, levels).unwrap_or_else(|Stop| Value::Raw(text.into()))
}

fn value(scan: &mut Scanner<'_>, levels: usize) -> Result<Value, Stop> {
    let start = scan.at();
    match scan.peek() {
        b'{' if levels > 0 => {
            let mut entries = ThinVec::new();
            scan.open(MAX_DEPTH)?;
            let mut more = scan.first(b'}');
            while more {
                let key = CompactString::from(scan.key()?);
                scan.colon()?;
                entries.push((key, value(scan, levels - 1)?));
                more = scan.next(b'}')?;
            }
            Ok(Value::Map(Map::from_entries(entries)))
        }
        b'[' if levels > 0 => {
            let mut items = ThinVec::new();
            scan.open(MAX_DEPTH)?;
            let mut more = scan.first(b']');
            while more {
                items.push(value(scan, levels - 1)?);
                more = scan.next(b']')?;
            }
            Ok(Value::List(items))
        }
        _ => {
            scan.skip_value()?;
            Ok(match scan.since(start) {
                "null" => Value::Null,
                text => Value::Raw(text.into()),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode_any;
    use super::*;

    #[test]
    fn documents_opened_by_a_level_and_to_the_ground() {
        let cases = [
            (r#"{"b":{"d":1,"c":[]},"a":"x"}"#, r#"{"a":"x","b":{"d":1,"c":[]}}"#),
            (r#"[{"b":1.50,"a":null},null]"#, r#"[{"b":1.50,"a":null},null]"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            ("null", "null"),
            ("1.0", "1.0"),
            (r#"{"a":"#, r#"{"a":"#),
        ];
        let written = |value: &Value| {
            let mut out = Vec::new();
            encode_any(value, &mut out);
            String::from_utf8(out).unwrap()
        };
        for (document, expected) in cases {
            assert_eq!(written(&open(document)), expected);
        }
        assert_eq!(written(&open_all(r#"[{"b":1.50,"a":{}}]"#)), r#"[{"a":{},"b":1.50}]"#);
        let deep = format!("{}1{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert_eq!(written(&open_all(&deep)), deep);
    }
}
