//! Decoding of bytes to characters: encodings, and characters that YAML does not allow.

use std::borrow::Cow;

/// Characters of a stream.
#[derive(Debug)]
pub(super) struct Input<'a> {
    pub text: Cow<'a, str>,
    /// Reason why the stream is unreadable beyond the end of the text.
    pub unreadable: Option<&'static str>,
}

/// Number of bytes that the reference reads at a time; it reports an unreadable character before anything else in the
/// same piece.
const PIECE: usize = 512;

/// Decodes UTF-8, or UTF-16 with a byte order mark.
pub(super) fn read(bytes: &[u8]) -> Input<'_> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => read_utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => read_utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => read_utf8(rest, 3),
        _ => read_utf8(bytes, 0),
    }
}

fn read_utf8(bytes: &[u8], mark: usize) -> Input<'_> {
    let (valid, invalid) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(e) => {
            let (valid, rest) = bytes.split_at(e.valid_up_to());
            (std::str::from_utf8(valid).unwrap_or_default(), Some(utf8_problem(rest)))
        }
    };
    let (end, unreadable) = match (control(valid), invalid) {
        (Some(at), _) => (at, CONTROL),
        (None, Some(problem)) => (valid.len(), problem),
        (None, None) => return Input { text: Cow::Borrowed(valid), unreadable: None },
    };
    let mut end = ((mark + end) / PIECE * PIECE).saturating_sub(mark);
    while !valid.is_char_boundary(end) {
        end -= 1;
    }
    let text = valid.get(..end).unwrap_or_default();
    Input { text: Cow::Borrowed(text), unreadable: Some(unreadable) }
}

/// Error of the first sequence.
fn utf8_problem(bytes: &[u8]) -> &'static str {
    let first = bytes.first().copied().unwrap_or_default();
    let (width, smallest) = match first {
        0xc0..=0xdf => (2, 0x80),
        0xe0..=0xef => (3, 0x800),
        0xf0..=0xf7 => (4, 0x10000),
        _ => return "invalid leading UTF-8 octet",
    };
    let Some(trail) = bytes.get(1..width) else { return "incomplete UTF-8 octet sequence" };
    if trail.iter().any(|octet| octet & 0xc0 != 0x80) {
        return "invalid trailing UTF-8 octet";
    }
    let lead = u32::from(first) & (0x7f >> width);
    let value = trail.iter().fold(lead, |value, octet| value << 6 | u32::from(octet & 0x3f));
    if value < smallest {
        "invalid length of a UTF-8 sequence"
    } else {
        "invalid Unicode character"
    }
}

fn read_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Input<'static> {
    let mut text = String::with_capacity(bytes.len());
    let mut piece_start = 0;
    let mut unreadable = None;
    let mut at = 0;
    while at < bytes.len() {
        // The byte order mark is part of the first piece.
        if (at + 2).is_multiple_of(PIECE) {
            piece_start = text.len();
        }
        match utf16_char(&bytes[at..], unit) {
            Ok(c) if is_control(c) => unreadable = Some(CONTROL),
            Ok(c) => {
                text.push(c);
                at += 2 * c.len_utf16();
                continue;
            }
            Err(problem) => unreadable = Some(problem),
        }
        text.truncate(piece_start);
        break;
    }
    Input { text: Cow::Owned(text), unreadable }
}

fn utf16_char(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<char, &'static str> {
    let unit_at = |at: usize| match bytes.get(at..at + 2) {
        Some(&[a, b]) => Some(unit([a, b])),
        _ => None,
    };
    let first = unit_at(0).ok_or("incomplete UTF-16 character")?;
    if first & 0xfc00 == 0xdc00 {
        return Err("unexpected low surrogate area");
    }
    if first & 0xfc00 != 0xd800 {
        return Ok(char::from_u32(first.into()).unwrap_or_default());
    }
    let second = unit_at(2).ok_or("incomplete UTF-16 surrogate pair")?;
    if second & 0xfc00 != 0xdc00 {
        return Err("expected low surrogate area");
    }
    let value = 0x10000 + (u32::from(first & 0x3ff) << 10) + u32::from(second & 0x3ff);
    Ok(char::from_u32(value).unwrap_or_default())
}

const CONTROL: &str = "control characters are not allowed";

/// Position of the first character that YAML does not allow.
fn control(text: &str) -> Option<usize> {
    // Only these bytes begin such a character: C0 and DEL, C1 (C2 80 to C2 9F), U+FFFE and U+FFFF.
    let suspect = |byte: u8| {
        (byte < 0x20) & (byte != b'\n') & (byte != b'\t') & (byte != b'\r')
            | (byte == 0x7f)
            | (byte == 0xc2)
            | (byte == 0xef)
    };
    // Whole chunks without a branch: most have none of them.
    let clean = |chunk: &&[u8]| !chunk.iter().fold(false, |found, &byte| found | suspect(byte));
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        at += 64 * rest.chunks(64).take_while(clean).count();
        at += text.as_bytes().get(at..)?.iter().position(|&byte| suspect(byte))?;
        let c = text[at..].chars().next()?;
        if is_control(c) {
            return Some(at);
        }
        at += c.len_utf8();
    }
    None
}

fn is_control(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        c => c < ' ' || ('\u{7f}'..'\u{a0}').contains(&c),
    }
}
