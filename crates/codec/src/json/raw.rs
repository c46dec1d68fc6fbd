//! Embedded documents: kept as text, without the white space between their tokens.

use std::borrow::Cow;

use super::error::Error;
use super::scan::Scanner;
use super::text::text_of;

/// Checks that bytes are one JSON document and drops its white space. Numbers, escapes and the order of keys stay.
///
/// ```
/// assert_eq!(&*kevel_codec::json::compact(br#" {"b": 1.0, "a": "x y"}"#)?, r#"{"b":1.0,"a":"x y"}"#);
/// # Ok::<(), kevel_codec::json::Error>(())
/// ```
pub fn compact(document: &[u8]) -> Result<Box<str>, Error> {
    check(document).map(|text| compacted(&text))
}

/// Checks that bytes are one JSON document; returns its text unchanged.
pub(crate) fn check(document: &[u8]) -> Result<Cow<'_, str>, Error> {
    let text = text_of(document);
    let mut scan = Scanner::new(&text);
    scan.skip_space();
    match scan.skip_value().and_then(|()| scan.end()) {
        Ok(()) => Ok(text),
        Err(_) => Err(Error::Syntax(scan.error(document))),
    }
}

/// Valid JSON without white space.
pub(super) fn compacted(text: &str) -> Box<str> {
    // Documents written by programs mostly have none.
    let bytes = text.as_bytes();
    if memchr::memchr3(b' ', b'\n', b'\t', bytes).or(memchr::memchr(b'\r', bytes)).is_none() {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Outside strings white space is dropped run by run; strings are copied whole.
    while let Some(quote) = rest.find('"') {
        let (before, string) = rest.split_at(quote);
        push_without_space(&mut out, before);
        let (string, after) = string.split_at(string_len(string.as_bytes()));
        out.push_str(string);
        rest = after;
    }
    push_without_space(&mut out, rest);
    out.into_boxed_str()
}

fn push_without_space(out: &mut String, text: &str) {
    text.split([' ', '\n', '\r', '\t']).for_each(|part| out.push_str(part));
}

/// Length of the string literal at the start of the text.
pub(super) fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Appends a document's text as Go's encoder does: characters that are special in HTML and JavaScript are escaped.
pub(super) fn write_raw(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    if memchr::memchr3(b'<', b'>', b'&', bytes).or(memchr::memchr(0xe2, bytes)).is_none() {
        return out.extend_from_slice(bytes);
    }
    let mut run = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let escape: (&[u8], usize) = match byte {
            b'<' => (b"\\u003c", 1),
            b'>' => (b"\\u003e", 1),
            b'&' => (b"\\u0026", 1),
            0xe2 => match bytes.get(at + 1..at + 3) {
                Some([0x80, 0xa8]) => (b"\\u2028", 3),
                Some([0x80, 0xa9]) => (b"\\u2029", 3),
                _ => continue,
            },
            _ => continue,
        };
        out.extend_from_slice(&bytes[run..at]);
        out.extend_from_slice(escape.0);
        run = at + escape.1;
    }
    out.extend_from_slice(&bytes[run..]);
}
