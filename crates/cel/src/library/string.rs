//! String library. Positions and lengths are counted in characters.

use super::{MAX_LENGTH, MAX_TEXT, Row, ordered, row};
use crate::error::Error;
use crate::value::Value;

pub(super) const ROWS: &[Row] =
    &[
        row("charAt", "string_char_at_int", "string.(int) -> string", |args| match args {
            [Value::String(text), Value::Int(index)] => char_at(text, *index).map(Value::string),
            _ => Err(Error::no_such_overload()),
        }),
        row("indexOf", "string_index_of_string", "string.(string) -> int", |args| match args {
            [Value::String(text), Value::String(part)] => index_of(text, part, 0).map(Value::Int),
            _ => Err(Error::no_such_overload()),
        }),
        ordered("indexOf", "string_index_of_string_int", "string.(string, int) -> int", |args| {
            match args {
                [Value::String(text), Value::String(part), Value::Int(from)] => {
                    index_of(text, part, *from).map(Value::Int)
                }
                _ => Err(Error::no_such_overload()),
            }
        }),
        row("lastIndexOf", "string_last_index_of_string", "string.(string) -> int", |args| {
            match args {
                [Value::String(text), Value::String(part)] => {
                    let len = text.chars().count() as i64;
                    match part.is_empty() {
                        true => Ok(Value::Int(len)),
                        false if text.len() < part.len() => Ok(Value::Int(-1)),
                        false => last_index_of(text, part, len - 1).map(Value::Int),
                    }
                }
                _ => Err(Error::no_such_overload()),
            }
        }),
        ordered(
            "lastIndexOf",
            "string_last_index_of_string_int",
            "string.(string, int) -> int",
            |args| match args {
                [Value::String(text), Value::String(part), Value::Int(from)] => {
                    last_index_of(text, part, *from).map(Value::Int)
                }
                _ => Err(Error::no_such_overload()),
            },
        ),
        row("lowerAscii", "string_lower_ascii", "string.() -> string", |args| {
            map(args, |text| text.to_ascii_lowercase())
        }),
        row("upperAscii", "string_upper_ascii", "string.() -> string", |args| {
            map(args, |text| text.to_ascii_uppercase())
        }),
        row("trim", "string_trim", "string.() -> string", |args| {
            map(args, |text| text.trim().to_owned())
        }),
        row("strings.quote", "strings_quote", "(string) -> string", |args| map(args, quote)),
        ordered(
            "replace",
            "string_replace_string_string",
            "string.(string, string) -> string",
            replace,
        ),
        ordered(
            "replace",
            "string_replace_string_string_int",
            "string.(string, string, int) -> string",
            replace,
        ),
        row("split", "string_split_string", "string.(string) -> list(string)", split),
        ordered("split", "string_split_string_int", "string.(string, int) -> list(string)", split),
        row("substring", "string_substring_int", "string.(int) -> string", substring),
        ordered("substring", "string_substring_int_int", "string.(int, int) -> string", substring),
        ordered(
            "format",
            "string_format",
            "string.(list(dyn)) -> string",
            super::format_string::format,
        ),
        row("join", "list_join", "list(string).() -> string", join),
        row("join", "list_join_string", "list(string).(string) -> string", join),
    ];

fn map<'a>(args: &[Value<'a>], map: fn(&str) -> String) -> Result<Value<'a>, Error> {
    match args {
        [Value::String(text)] => Ok(Value::string(map(text))),
        _ => Err(Error::no_such_overload()),
    }
}

fn out_of_range(index: i64) -> Error {
    Error::new(format!("index out of range: {index}"))
}

fn char_at(text: &str, index: i64) -> Result<String, Error> {
    let position = usize::try_from(index).map_err(|_| out_of_range(index))?;
    match text.chars().nth(position) {
        Some(c) => Ok(c.to_string()),
        None if position == text.chars().count() => Ok(String::new()),
        None => Err(out_of_range(index)),
    }
}

fn index_of(text: &str, part: &str, from: i64) -> Result<i64, Error> {
    if part.is_empty() {
        return Ok(from);
    }
    let from_position = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let Some((start, _)) = text.char_indices().nth(from_position) else { return Ok(-1) };
    let rest = text.get(start..).unwrap_or_default();
    Ok(match rest.find(part) {
        Some(at) => from + rest.get(..at).unwrap_or_default().chars().count() as i64,
        None => -1,
    })
}

fn last_index_of(text: &str, part: &str, from: i64) -> Result<i64, Error> {
    if part.is_empty() {
        return Ok(from);
    }
    let from_position = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let Some((start, _)) = text.char_indices().nth(from_position) else { return Ok(-1) };
    // A match starts at the position or before it, so it ends here or before. If this is inside a character, nothing
    // starts at the position.
    let end = (start + part.len()).min(text.len());
    let end = (0..=end).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    Ok(match text.get(..end).unwrap_or_default().rfind(part) {
        Some(at) => text.get(..at).unwrap_or_default().chars().count() as i64,
        None => -1,
    })
}

/// `replace`, at most as often as the last argument says; always, if it is negative or missing.
fn replace<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, from, to, count) = match args {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, -1),
        [Value::String(text), Value::String(from), Value::String(to), Value::Int(count)] => {
            (text, from, to, *count)
        }
        _ => return Err(Error::no_such_overload()),
    };
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    // The size of the result is checked before it is built.
    let found = if from.is_empty() { text.len() + 1 } else { text.len() / from.len() };
    if to.len() > from.len() && text.len() + found.min(most).saturating_mul(to.len()) > MAX_TEXT {
        let found = text.matches(&**from).take(most).count();
        if text.len() + found.saturating_mul(to.len()) > MAX_TEXT {
            return Err(Error::cost_limit());
        }
    }
    Ok(Value::string(text.replacen(&**from, to, most)))
}

/// `split`, into at most as many parts as the last argument says.
fn split<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, separator, count) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(count)] => {
            (text, separator, *count)
        }
        _ => return Err(Error::no_such_overload()),
    };
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let mut parts = Vec::new();
    let mut add = |from: usize, to: usize| {
        parts.push(Value::String(text.slice(from, to)));
        if parts.len() > MAX_LENGTH { Err(Error::cost_limit()) } else { Ok(()) }
    };
    let (mut start, mut count) = (0, 1);
    if separator.is_empty() {
        // An empty separator splits into characters.
        for (at, c) in text.char_indices().take(most - 1) {
            start = at + c.len_utf8();
            add(at, start)?;
        }
        if start < text.len() {
            add(start, text.len())?;
        }
    } else {
        while count < most
            && let Some(found) = text.get(start..).and_then(|rest| rest.find(&**separator))
        {
            add(start, start + found)?;
            start += found + separator.len();
            count += 1;
        }
        add(start, text.len())?;
    }
    Ok(Value::list(parts))
}

fn substring<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(Error::no_such_overload()),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Error::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let len = text.chars().count();
    let position = |index: i64| {
        usize::try_from(index).ok().filter(|i| *i <= len).ok_or_else(|| out_of_range(index))
    };
    let first = position(start)?;
    let last = end.map_or(Ok(len), position)?;
    Ok(Value::string(text.chars().skip(first).take(last - first).collect::<String>()))
}

fn join<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(Error::no_such_overload()),
    };
    let mut joined = String::new();
    for (i, element) in list.iter().enumerate() {
        if i > 0 {
            joined.push_str(separator);
        }
        match element? {
            Value::String(text) => joined.push_str(&text),
            other => return Err(Error::new(format!("join: invalid input: {other}"))),
        }
        if joined.len() > MAX_TEXT {
            return Err(Error::cost_limit());
        }
    }
    Ok(Value::string(joined))
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
