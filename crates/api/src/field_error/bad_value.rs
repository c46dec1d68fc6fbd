//! Wrong values in messages of field errors.

use super::MAX_VALUE_BYTES;
use super::cut::{cut, cut_owned};
use crate::json_string::write_json_string;

/// A wrong value, as messages print it.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// Not printed.
    Omitted,
    /// Plain string, printed in quotes.
    String(String),
    /// Text printed as it is: numbers, booleans, and values that the reference marshals to JSON (structs, lists, maps,
    /// pointers, and strings of named types).
    Text(String),
}

impl BadValue {
    /// String of a named type in the reference: printed as JSON, which escapes differently from a plain string.
    pub fn named_string(s: &str) -> Self {
        let mut out = Vec::new();
        write_json_string(&mut out, &cut(MAX_VALUE_BYTES, s));
        BadValue::Text(String::from_utf8(out).unwrap_or_default())
    }

    /// List of strings, printed as JSON.
    pub fn strings<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Self {
        let mut out = vec![b'['];
        for item in items {
            if out.len() > 1 {
                out.push(b',');
            }
            if out.len() > MAX_VALUE_BYTES {
                break;
            }
            write_json_string(&mut out, &cut(MAX_VALUE_BYTES, item.as_ref()));
        }
        out.push(b']');
        BadValue::Text(String::from_utf8(out).unwrap_or_default())
    }

    /// Length of the text.
    pub fn size(&self) -> usize {
        match self {
            BadValue::Omitted => 0,
            BadValue::String(text) | BadValue::Text(text) => text.len(),
        }
    }

    /// Value cut to the limit of messages.
    pub(super) fn cut(self) -> Self {
        match self {
            BadValue::Omitted => BadValue::Omitted,
            BadValue::String(text) => BadValue::String(cut_owned(MAX_VALUE_BYTES, text)),
            BadValue::Text(text) => BadValue::Text(cut_owned(MAX_VALUE_BYTES, text)),
        }
    }
}

impl From<&str> for BadValue {
    fn from(value: &str) -> Self {
        BadValue::String(cut(MAX_VALUE_BYTES, value).into_owned())
    }
}

impl From<String> for BadValue {
    fn from(value: String) -> Self {
        BadValue::String(value)
    }
}

macro_rules! bad_value_from_displayed {
    ($($type:ty)*) => {$(
        impl From<$type> for BadValue {
            fn from(value: $type) -> Self {
                BadValue::Text(value.to_string())
            }
        }
    )*};
}
bad_value_from_displayed!(bool i32 i64 u32 u64 usize);

impl From<f64> for BadValue {
    /// Prints the shortest digits, with an exponent below 1e-4 and from 1e6 on.
    fn from(value: f64) -> Self {
        let scientific = format!("{value:e}");
        let text = match scientific.split_once('e').map(|(m, e)| (m, e.parse::<i32>())) {
            Some((mantissa, Ok(exponent))) if !(-4..6).contains(&exponent) => {
                let sign = if exponent < 0 { '-' } else { '+' };
                format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
            }
            _ if value.is_infinite() => format!("{value:+}").replace("inf", "Inf"),
            _ => value.to_string(),
        };
        BadValue::Text(text)
    }
}
