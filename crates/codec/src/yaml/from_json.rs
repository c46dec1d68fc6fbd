//! Conversion of JSON to YAML nodes, for writing.
//!
//! The reference uses its YAML decoder for this. Here JSON's own rules are used, so that long keys, escaped surrogates
//! and control characters, which YAML refuses, are accepted.

use super::document::{Document, Id};
use super::resolve::{Resolved, implicit};
use super::scanner::Text;

/// Decodes JSON that was checked before; `None` if it is not JSON after all.
pub(super) fn from_json(json: &str) -> Option<Document<'_>> {
    let mut reader = Reader { document: Document::new(json), at: 0 };
    let mut open: Vec<(Id, u8)> = Vec::new();
    loop {
        kevel_compute::charge(1);
        // A value is here, or the end of an empty collection.
        match reader.next()? {
            close @ (b']' | b'}') => {
                let (id, expected) = open.pop()?;
                (close == expected && id as usize + 1 == reader.document.nodes.len())
                    .then_some(())?;
                reader.at += 1;
                reader.document.close(id);
            }
            b'[' => {
                reader.at += 1;
                open.push((reader.document.open(0, false), b']'));
                continue;
            }
            b'{' => {
                reader.at += 1;
                open.push((reader.document.open(0, true), b'}'));
                if reader.next()? != b'}' {
                    reader.key()?;
                }
                continue;
            }
            _ => reader.scalar()?,
        }
        // A value ended here, and perhaps enclosing ones.
        loop {
            let Some(&(id, close)) = open.last() else {
                return reader.next().is_none().then_some(reader.document);
            };
            let byte = reader.next()?;
            reader.at += 1;
            if byte == b',' {
                if close == b'}' {
                    reader.key()?;
                }
                break;
            }
            (byte == close).then_some(())?;
            open.pop();
            reader.document.close(id);
        }
    }
}

struct Reader<'a> {
    document: Document<'a>,
    at: usize,
}

impl Reader<'_> {
    /// Next byte that is no white space.
    fn next(&mut self) -> Option<u8> {
        let rest = self.document.source.as_bytes().get(self.at..)?;
        let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().position(|byte| !space(byte))?;
        self.document.source.as_bytes().get(self.at).copied()
    }

    fn key(&mut self) -> Option<()> {
        (self.next()? == b'"').then_some(())?;
        self.string()?;
        (self.next()? == b':').then_some(())?;
        self.at += 1;
        Some(())
    }

    fn scalar(&mut self) -> Option<()> {
        if self.next()? == b'"' {
            return self.string();
        }
        let source = self.document.source;
        let rest = source.get(self.at..)?;
        let end = |c: char| matches!(c, ',' | ']' | '}' | ' ' | '\t' | '\n' | '\r');
        let len = rest.find(end).unwrap_or(rest.len());
        let start = self.at;
        self.at += len;
        match implicit(&rest[..len], false) {
            Resolved::Null => self.document.push_null(0),
            Resolved::Bool(is) => self.document.push_bool(0, is),
            Resolved::Int(int) => self.document.push_int(0, int),
            Resolved::Uint(uint) => self.document.push_uint(0, uint),
            Resolved::Float(float) => self.document.push_float(0, float),
            _ => self.document.push_str(0, text(false, start, self.at)),
        };
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        let source = self.document.source;
        let start = self.at + 1;
        let special = |from: usize| {
            let at =
                source.as_bytes().get(from..)?.iter().position(|b| matches!(b, b'"' | b'\\'))?;
            Some(from + at)
        };
        let mut end = special(start)?;
        if source.as_bytes()[end] == b'"' {
            self.at = end + 1;
            self.document.push_str(0, text(false, start, end));
            return Some(());
        }
        let scratch = self.document.scratch.len();
        let mut run = start;
        while source.as_bytes()[end] == b'\\' {
            self.document.scratch.push_str(source.get(run..end)?);
            let (c, len) = escape(source.get(end..)?)?;
            self.document.scratch.push(c);
            run = end + len;
            end = special(run)?;
        }
        self.document.scratch.push_str(source.get(run..end)?);
        self.at = end + 1;
        let text = text(true, scratch, self.document.scratch.len());
        self.document.push_str(0, text);
        Some(())
    }
}

/// Character of an escape, and the escape's length.
fn escape(text: &str) -> Option<(char, usize)> {
    let c = match text.as_bytes().get(1)? {
        b'b' => '\x08',
        b'f' => '\x0c',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = |at: usize| u16::from_str_radix(text.get(at..at + 4)?, 16).ok();
            let first = unit(2)?;
            let second = if text.get(6..8) == Some("\\u") { unit(8) } else { None };
            let pair = [first, second.unwrap_or_default()];
            return Some(match char::decode_utf16(pair).next()? {
                Ok(c) => (c, 6 * c.len_utf16()),
                Err(_) => (char::REPLACEMENT_CHARACTER, 6),
            });
        }
        &other => other as char,
    };
    Some((c, 2))
}

fn text(in_scratch: bool, start: usize, end: usize) -> Text {
    Text { in_scratch, start: start as u32, len: (end - start) as u32 }
}
