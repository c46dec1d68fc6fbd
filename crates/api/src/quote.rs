//! Quoted text in messages, as Go's formatting verbs print it.

use std::fmt::{self, Write};

use crate::field_error::cut::boundary;

/// Quotes `s` as `%q` does: double quotes, backslash escapes, printable characters as they are.
///
/// ```
/// assert_eq!(kevel_api::quote::quote("a\"b\u{7f}"), r#""a\"b\x7f""#);
/// ```
pub fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    push_escaped(&mut out, s);
    out.push('"');
    out
}

/// Prints a text as [`quote`] does, piece by piece, so that a bounded writer can stop early.
///
/// ```
/// use kevel_api::quote::Quoted;
/// assert_eq!(Quoted("a\"b\u{7f}").to_string(), r#""a\"b\x7f""#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PIECE: usize = 1024;
        f.write_char('"')?;
        let mut rest = self.0;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(boundary(rest, PIECE));
            let mut out = String::with_capacity(piece.len());
            push_escaped(&mut out, piece);
            f.write_str(&out)?;
            rest = after;
        }
        f.write_char('"')
    }
}

fn push_escaped(out: &mut String, s: &str) {
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            ' '..='~' => out.push(c),
            c if is_printable(c) => out.push(c),
            '\0'..='\x7f' => push_hex(out, "\\x", u32::from(c), 2),
            '\u{80}'..='\u{ffff}' => push_hex(out, "\\u", u32::from(c), 4),
            _ => push_hex(out, "\\U", u32::from(c), 8),
        }
    }
}

/// Quotes `s` as in messages about times and durations: every byte that is not printable ASCII as `\xNN`.
pub(crate) fn quote_ascii(s: &[u8]) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for &byte in s {
        match byte {
            b'"' | b'\\' => out.extend(['\\', byte as char]),
            0x20..0x80 => out.push(byte as char),
            _ => push_hex(&mut out, "\\x", u32::from(byte), 2),
        }
    }
    out.push('"');
    out
}

fn push_hex(out: &mut String, prefix: &str, value: u32, digits: u32) {
    out.push_str(prefix);
    let nibbles = (0..digits).rev().map(|place| value >> (4 * place) & 0xf);
    out.extend(nibbles.filter_map(|nibble| char::from_digit(nibble, 16)));
}

/// Whether a character is printed as it is (upstream: unicode.IsPrint).
///
/// ```
/// use kevel_api::quote::is_print;
/// assert!(is_print('ü') && is_print('"') && !is_print('\n'));
/// ```
pub fn is_print(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || is_printable(c)
}

/// Whether the standard library considers a character printable, which shows only through its escaping. The letter in
/// front keeps a combining mark from being escaped as the first of a string.
fn is_printable(c: char) -> bool {
    let mut pair = [b'a', 0, 0, 0, 0];
    let len = c.encode_utf8(&mut pair[1..]).len() + 1;
    std::str::from_utf8(&pair[..len]).is_ok_and(|s| s.escape_debug().nth(1) == Some(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_the_reference() {
        for (text, quoted) in [
            ("", r#""""#),
            ("it's", r#""it's""#),
            ("\"\\", r#""\"\\""#),
            ("\0\x07\x08\x0b\x0c\n\r\t\x1b\x7f", r#""\x00\a\b\v\f\n\r\t\x1b\x7f""#),
            ("é日😀\u{301}", "\"é日😀\u{301}\""),
            ("\u{a0}\u{ad}\u{2028}\u{feff}\u{e000}", r#""\u00a0\u00ad\u2028\ufeff\ue000""#),
            ("\u{e0001}\u{10ffff}", r#""\U000e0001\U0010ffff""#),
            ("\u{fffd}", "\"\u{fffd}\""),
        ] {
            assert_eq!(quote(text), quoted, "{text:?}");
        }
    }

    #[test]
    fn quotes_times_by_the_byte() {
        assert_eq!(quote_ascii("µ\"\n".as_bytes()), r#""\xc2\xb5\"\x0a""#);
    }
}
