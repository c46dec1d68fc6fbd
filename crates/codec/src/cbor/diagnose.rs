//! Diagnostic notation (RFC 8949, section 8): bytes as people read them, in messages.

use std::fmt::Write as _;

use super::error::{Error, Major, Result};
use super::head::{FALSE, ItemHead, NULL, TRUE};
use super::reader::CborReader;
use super::{any, float};
use crate::json;

/// An item in diagnostic notation.
///
/// ```
/// let notation = kevel_codec::cbor::diagnose(b"\xa1\x44kind\x82\x01\x61a")?;
/// assert_eq!(notation, r#"{'kind': [1, "a"]}"#);
/// # Ok::<(), kevel_codec::cbor::Error>(())
/// ```
pub fn diagnose(input: &[u8]) -> std::result::Result<String, Error> {
    let mut out = String::with_capacity(input.len() * 2);
    let read = CborReader::new(input, false).and_then(|mut reader| reader.notation(&mut out));
    read.map(|()| out).map_err(|error| *error)
}

impl CborReader<'_> {
    fn notation(&mut self, out: &mut String) -> Result<()> {
        let mut look = self.rest;
        let head = ItemHead::read(&mut look)?;
        match head.major {
            Major::Unsigned | Major::Negative => _ = write!(out, "{}", any::integer(self.head()?)),
            Major::Bytes | Major::Text if head.is_indefinite() => return self.chunks(head, out),
            Major::Bytes => bytes(&self.bytes()?, out),
            Major::Text => quoted(&self.utf8()?, '"', out)?,
            Major::Array => return self.down(|reader| reader.entries('[', ']', 1, out)),
            Major::Map => return self.down(|reader| reader.entries('{', '}', 2, out)),
            Major::Tag => {
                _ = write!(out, "{}(", self.head()?.argument);
                self.down(|reader| reader.notation(out))?;
                out.push(')');
            }
            Major::Other => simple(self.head()?, out),
        }
        Ok(())
    }

    /// A string in chunks.
    fn chunks(&mut self, head: ItemHead, out: &mut String) -> Result<()> {
        self.head()?;
        if self.peek() == super::head::BREAK {
            self.head()?;
            out.push_str(if head.major == Major::Bytes { "''_" } else { "\"\"_" });
            return Ok(());
        }
        out.push_str("(_ ");
        let mut first = true;
        while self.peek() != super::head::BREAK {
            if !std::mem::take(&mut first) {
                out.push_str(", ");
            }
            self.notation(out)?;
        }
        self.head()?;
        out.push(')');
        Ok(())
    }

    /// A list, or a map of keys and values.
    fn entries(&mut self, open: char, close: char, parts: usize, out: &mut String) -> Result<()> {
        out.push(open);
        if self.peek() & 31 == super::head::INDEFINITE {
            out.push_str("_ ");
        }
        let mut items = self.items()?;
        while let Some(index) = self.next(&mut items) {
            if index > 0 {
                out.push_str(", ");
            }
            self.notation(out)?;
            if parts == 2 {
                out.push_str(": ");
                self.notation(out)?;
            }
        }
        out.push(close);
        Ok(())
    }
}

fn bytes(bytes: &[u8], out: &mut String) {
    if !bytes.is_empty() && quoted(bytes, '\'', out).is_ok() {
        return;
    }
    out.push_str("h'");
    bytes.iter().for_each(|byte| _ = write!(out, "{byte:02x}"));
    out.push('\'');
}

/// Text in quotes, with everything but plain letters escaped. A replacement character is taken for what it replaces.
fn quoted(bytes: &[u8], quote: char, out: &mut String) -> Result<()> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::InvalidUtf8)?;
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Error::InvalidUtf8.into());
    }
    out.push(quote);
    for letter in text.chars() {
        match letter {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            letter if letter == quote => out.extend(['\\', letter]),
            ' '..='~' => out.push(letter),
            letter => {
                let units = letter.encode_utf16(&mut [0; 2]).to_vec();
                units.iter().for_each(|unit| _ = write!(out, "\\u{unit:04x}"));
            }
        }
    }
    out.push(quote);
    Ok(())
}

fn simple(head: ItemHead, out: &mut String) {
    match (head.information, float::of_head(head)) {
        (_, Some(float)) => number(float, out),
        (FALSE, _) => out.push_str("false"),
        (TRUE, _) => out.push_str("true"),
        (NULL, _) => out.push_str("null"),
        (23, _) => out.push_str("undefined"),
        _ => _ = write!(out, "simple({})", head.argument),
    }
}

/// A float as JSON has it, with a point in any case.
fn number(float: f64, out: &mut String) {
    let mut text = Vec::new();
    json::write_float(float, &mut text);
    let text = String::from_utf8(text).unwrap_or_default();
    match text.split_once('e') {
        _ if text.contains('.') => out.push_str(&text),
        Some((digits, exponent)) => _ = write!(out, "{digits}.0e{exponent}"),
        None => _ = write!(out, "{text}.0"),
    }
}
