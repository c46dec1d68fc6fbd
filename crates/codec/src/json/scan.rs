//! JSON scanner: white space, strings, numbers, literals, and skipped values.
//!
//! Accepted input and error messages follow Go's scanner, byte for byte.

use std::borrow::Cow;

use compact_str::CompactString;

use super::text::byte_behind;

/// Limit on the nesting of arrays and objects in skipped text, as in the reference.
pub(super) const MAX_NESTING: usize = 10_000;

/// Syntax error; [`Scanner::error`] has the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop;

/// Scanner of one document.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// For each array or object that [`Scanner::skip_value`] has open: whether it is an object.
    open: Vec<bool>,
    fault: Option<Fault>,
}

/// Position of the wrong byte; no context if the input ends too early.
#[derive(Debug)]
struct Fault {
    at: usize,
    context: Option<String>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        Scanner { text, bytes, at: 0, depth: 0, open: Vec::new(), fault: None }
    }

    /// Error message. `input` is the input that [`text_of`](super::text::text_of) converted to the text.
    pub(super) fn error(self, input: &[u8]) -> String {
        let Some(Fault { at, context: Some(context) }) = self.fault else {
            return "unexpected end of JSON input".to_owned();
        };
        let quoted = match byte_behind(input, at).unwrap_or(b' ') as char {
            '\'' => r"'\''".to_owned(),
            '"' => "'\"'".to_owned(),
            c => {
                let quoted = kevel_api::quote::quote(c.encode_utf8(&mut [0; 4]));
                format!("'{}'", quoted.trim_matches('"'))
            }
        };
        format!("invalid character {quoted} {context}")
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Text from a position to here.
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Next byte, 0 at the end; a NUL in the input is as wrong as the end everywhere.
    #[inline]
    pub(super) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn skip_space(&mut self) {
        while let b' ' | b'\n' | b'\r' | b'\t' = self.peek() {
            self.at += 1;
        }
    }

    /// Consumes the next byte if it is this one.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is = self.peek() == byte;
        self.at += usize::from(is);
        is
    }

    /// Opens the array or object that begins here; `limit` is its deepest allowed level.
    #[inline]
    pub(super) fn open(&mut self, limit: usize) -> Result<(), Stop> {
        self.depth += 1;
        if self.depth > limit {
            return Err(self.invalid("exceeded max depth"));
        }
        self.at += 1;
        Ok(())
    }

    /// Consumes the colon after a key.
    #[inline]
    pub(super) fn colon(&mut self) -> Result<(), Stop> {
        // Usually there is no white space before it, and none or one space after it.
        if !self.take(b':') {
            self.skip_space();
            if !self.take(b':') {
                return Err(self.invalid("after object key"));
            }
        }
        self.skip_space();
        Ok(())
    }

    /// Moves to the first key or element; false if there is none.
    #[inline]
    pub(super) fn first(&mut self, close: u8) -> bool {
        self.skip_space();
        if self.take(close) {
            self.depth -= 1;
            return false;
        }
        true
    }

    /// Consumes the comma before the next key or element, or the end; false if there is no next.
    #[inline]
    pub(super) fn next(&mut self, close: u8) -> Result<bool, Stop> {
        self.skip_space();
        if self.take(b',') {
            self.skip_space();
            return Ok(true);
        }
        if self.take(close) {
            self.depth -= 1;
            return Ok(false);
        }
        Err(self.invalid(if close == b'}' {
            "after object key:value pair"
        } else {
            "after array element"
        }))
    }

    /// Checks that only white space follows.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        self.skip_space();
        if self.at < self.bytes.len() {
            return Err(self.invalid("after top-level value"));
        }
        Ok(())
    }

    /// Text between the quote here and the next one: a key, if it needs no unescaping.
    #[inline]
    pub(super) fn peek_key(&self) -> &'a [u8] {
        let start = self.at + 1;
        if self.peek() != b'"' {
            return &[];
        }
        self.bytes.get(start..quote_after(self.bytes, start)).unwrap_or_default()
    }

    /// Consumes a key that [`Scanner::peek_key`] returned.
    #[inline]
    pub(super) fn pass_key(&mut self, key: &[u8]) {
        self.at += key.len() + 2;
    }

    /// Scans an object's key.
    #[inline]
    pub(super) fn key(&mut self) -> Result<Cow<'a, str>, Stop> {
        if self.peek() != b'"' {
            return Err(self.invalid("looking for beginning of object key string"));
        }
        self.string()
    }

    /// Scans the string that begins here.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Stop> {
        let start = self.at + 1;
        self.at = plain_end(self.bytes, start);
        if self.peek() == b'"' {
            let text = self.since(start);
            self.at += 1;
            return Ok(Cow::Borrowed(text));
        }
        self.escaped(start).map(Cow::Owned)
    }

    /// Scans the string that begins here into an owned string.
    #[inline]
    pub(super) fn compact_string(&mut self) -> Result<CompactString, Stop> {
        let start = self.at + 1;
        self.at = plain_end(self.bytes, start);
        if self.peek() == b'"' {
            let text = CompactString::new(self.since(start));
            self.at += 1;
            return Ok(text);
        }
        self.escaped(start).map(CompactString::from)
    }

    #[cold]
    fn escaped(&mut self, start: usize) -> Result<String, Stop> {
        let mut out = String::new();
        let mut run = start;
        loop {
            self.at = plain_end(self.bytes, self.at);
            match self.peek() {
                b'"' => {
                    out.push_str(self.since(run));
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => {
                    out.push_str(self.since(run));
                    out.push(self.escape()?);
                    run = self.at;
                }
                _ => return Err(self.invalid("in string literal")),
            }
        }
    }

    /// Character of the escape at this backslash.
    fn escape(&mut self) -> Result<char, Stop> {
        self.at += 1;
        let c = match self.peek() {
            b'u' => {
                self.at += 1;
                let unit = self.hex4()?;
                return self.utf16(unit);
            }
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            c @ (b'"' | b'\\' | b'/') => c as char,
            _ => return Err(self.invalid_inside("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn hex4(&mut self) -> Result<u16, Stop> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = (self.peek() as char).to_digit(16) else {
                return Err(self.invalid_inside("in \\u hexadecimal character escape"));
            };
            unit = unit << 4 | digit as u16;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Character of a UTF-16 unit; an unpaired surrogate becomes U+FFFD.
    fn utf16(&mut self, unit: u16) -> Result<char, Stop> {
        if let Some(c) = char::from_u32(unit.into()) {
            return Ok(c);
        }
        if (0xd800..0xdc00).contains(&unit) && self.bytes.get(self.at..self.at + 2) == Some(b"\\u")
        {
            let back = self.at;
            self.at += 2;
            if let Some(Ok(c)) = char::decode_utf16([unit, self.hex4()?]).next() {
                return Ok(c);
            }
            self.at = back;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    /// Scans the number that begins here; returns its text.
    #[inline]
    pub(super) fn number(&mut self) -> Result<&'a str, Stop> {
        let start = self.at;
        self.take(b'-');
        match self.peek() {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return Err(self.invalid_inside("in numeric literal")),
        }
        if self.take(b'.') {
            if !self.peek().is_ascii_digit() {
                return Err(self.invalid_inside("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'+') || self.take(b'-');
            if !self.peek().is_ascii_digit() {
                return Err(self.invalid_inside("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(self.since(start))
    }

    fn digits(&mut self) {
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
    }

    /// Consumes `true`, `false` or `null`, whose first byte has been seen.
    #[inline]
    pub(super) fn literal(&mut self, word: &'static str) -> Result<(), Stop> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.broken_literal(word))
    }

    #[cold]
    fn broken_literal(&mut self, word: &'static str) -> Stop {
        let here = self.bytes[self.at..].iter();
        let right = here.zip(word.as_bytes()).take_while(|(a, b)| a == b).count();
        self.at += right;
        let expected = word.as_bytes().get(right).copied().unwrap_or_default();
        self.invalid_inside(&format!("in literal {word} (expecting '{}')", expected as char))
    }

    /// Skips the value that begins here, checking only its form. Not recursive.
    pub(super) fn skip_value(&mut self) -> Result<(), Stop> {
        let mut open = std::mem::take(&mut self.open);
        open.clear();
        let result = self.skip_nested(&mut open);
        self.open = open;
        result
    }

    fn skip_nested(&mut self, open: &mut Vec<bool>) -> Result<(), Stop> {
        loop {
            kevel_compute::charge(1);
            let entered = match self.peek() {
                b'"' => {
                    self.skip_string()?;
                    None
                }
                b'-' | b'0'..=b'9' => {
                    self.number()?;
                    None
                }
                b'{' => {
                    self.open(MAX_NESTING)?;
                    self.first(b'}').then_some(true)
                }
                b'[' => {
                    self.open(MAX_NESTING)?;
                    self.first(b']').then_some(false)
                }
                b't' => {
                    self.literal("true")?;
                    None
                }
                b'f' => {
                    self.literal("false")?;
                    None
                }
                b'n' => {
                    self.literal("null")?;
                    None
                }
                _ => return Err(self.no_value()),
            };
            if let Some(object) = entered {
                open.push(object);
            } else {
                while let Some(&object) = open.last() {
                    if self.next(if object { b'}' } else { b']' })? {
                        break;
                    }
                    open.pop();
                }
            }
            match open.last() {
                None => return Ok(()),
                Some(true) => {
                    if self.peek() != b'"' {
                        return Err(self.invalid("looking for beginning of object key string"));
                    }
                    self.skip_string()?;
                    self.colon()?;
                }
                Some(false) => {}
            }
        }
    }

    /// Skips a string, without a copy.
    fn skip_string(&mut self) -> Result<(), Stop> {
        self.at += 1;
        loop {
            self.at = plain_end(self.bytes, self.at);
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => _ = self.escape()?,
                _ => return Err(self.invalid("in string literal")),
            }
        }
    }

    /// Go's name for the value that begins here.
    pub(super) fn describe(&self) -> &'static str {
        match self.peek() {
            b'{' => "object",
            b'[' => "array",
            b'"' => "string",
            b't' | b'f' => "bool",
            b'n' => "null",
            _ => "number",
        }
    }

    /// Error: no value begins here.
    pub(super) fn no_value(&mut self) -> Stop {
        self.invalid("looking for beginning of value")
    }

    /// Error: the byte here is wrong, where white space is allowed.
    #[cold]
    fn invalid(&mut self, context: &str) -> Stop {
        if self.at < self.bytes.len() {
            return self.invalid_inside(context);
        }
        self.fault = Some(Fault { at: self.at, context: None });
        Stop
    }

    /// Error: the byte here is wrong, where white space is not allowed; the end counts as a space.
    #[cold]
    fn invalid_inside(&mut self, context: &str) -> Stop {
        self.fault = Some(Fault { at: self.at, context: Some(context.to_owned()) });
        Stop
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// First quote at or after `at`, or the end.
#[inline]
fn quote_after(bytes: &[u8], mut at: usize) -> usize {
    while let Some(Ok(chunk)) = bytes.get(at..at + 8).map(<[u8; 8]>::try_from) {
        let quote = u64::from_le_bytes(chunk) ^ (ONES * b'"' as u64);
        let found = quote.wrapping_sub(ONES) & !quote & HIGH;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|b| *b != b'"') {
        at += 1;
    }
    at
}

/// First byte at or after `at` that needs an escape or ends a string.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    // Eight bytes per step; the lowest marked byte is correct.
    while let Some(Ok(chunk)) = bytes.get(at..at + 8).map(<[u8; 8]>::try_from) {
        let word = u64::from_le_bytes(chunk);
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        let found = ((quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (word.wrapping_sub(ONES * 0x20) & !word))
            & HIGH;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|b| *b >= 0x20 && !matches!(b, b'"' | b'\\')) {
        at += 1;
    }
    at
}
