//! Scanning of tags and directives.

use super::Error;
use super::scanner::{Scanner, Token};

impl<'a> Scanner<'a> {
    /// Scans `%YAML 1.1` or `%TAG !e! tag:example.com,2026:`, to the end of its line.
    pub(super) fn scan_directive(&mut self) -> Result<Token<'a>, Error> {
        self.skip(1);
        let name = self.scan_word();
        if name.is_empty() {
            return Err(self.error("could not find expected directive name"));
        }
        if !self.is_blank_or_end(0) {
            return Err(self.error("found unexpected non-alphabetical character"));
        }
        let token = match name {
            "YAML" => self.scan_version()?,
            "TAG" => self.scan_tag_directive()?,
            _ => return Err(self.error("found unknown directive name")),
        };
        self.skip_blanks();
        self.skip_comment();
        if !self.is_break_or_end() {
            return Err(self.error("did not find expected comment or line break"));
        }
        self.skip_break();
        Ok(token)
    }

    fn scan_version(&mut self) -> Result<Token<'a>, Error> {
        self.skip_blanks();
        let major = self.scan_version_number()?;
        if self.byte(0) != b'.' {
            return Err(self.error("did not find expected digit or '.' character"));
        }
        self.skip(1);
        let minor = self.scan_version_number()?;
        Ok(Token::Version { major, minor })
    }

    fn scan_version_number(&mut self) -> Result<u8, Error> {
        let mut number = 0;
        let mut length = 0;
        while self.byte(0).is_ascii_digit() {
            length += 1;
            if length > 2 {
                return Err(self.error("found extremely long version number"));
            }
            number = number * 10 + (self.byte(0) - b'0');
            self.skip(1);
        }
        if length == 0 {
            return Err(self.error("did not find expected version number"));
        }
        Ok(number)
    }

    fn scan_tag_directive(&mut self) -> Result<Token<'a>, Error> {
        self.skip_blanks();
        let handle = self.scan_handle()?;
        if handle != "!" && !is_handle(handle) {
            return Err(self.error("did not find expected '!'"));
        }
        if !self.is_blank() {
            return Err(self.error("did not find expected whitespace"));
        }
        self.skip_blanks();
        let start = self.at;
        if !self.scan_uri()? {
            return Err(self.error("did not find expected tag URI"));
        }
        if !self.is_blank_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        Ok(Token::TagDirective { handle, prefix: &self.source[start..self.at] })
    }

    /// Scans `!<uri>`, `!handle!suffix`, `!suffix` or `!`.
    pub(super) fn scan_tag(&mut self) -> Result<Token<'a>, Error> {
        let start = self.at;
        let found = if self.byte(1) == b'<' {
            self.skip(2);
            let found = self.scan_uri()?;
            if found && self.byte(0) != b'>' {
                return Err(self.error("did not find the expected '>'"));
            }
            self.skip(u32::from(found));
            found
        } else {
            let handle = self.scan_handle()?;
            self.scan_uri()? || !is_handle(handle)
        };
        if !found {
            return Err(self.error("did not find expected tag URI"));
        }
        if !self.is_blank_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        Ok(Token::Tag(&self.source[start..self.at]))
    }

    /// Scans `!`, `!word` or `!word!`.
    fn scan_handle(&mut self) -> Result<&'a str, Error> {
        if self.byte(0) != b'!' {
            return Err(self.error("did not find expected '!'"));
        }
        let start = self.at;
        self.skip(1);
        self.scan_word();
        if self.byte(0) == b'!' {
            self.skip(1);
        }
        Ok(&self.source[start..self.at])
    }

    /// Scans the characters of a URI; false if there are none.
    fn scan_uri(&mut self) -> Result<bool, Error> {
        let start = self.at;
        loop {
            let byte = self.byte(0);
            if byte == b'%' {
                self.scan_uri_escape()?;
            } else if byte.is_ascii_alphanumeric() || b"-_;/?:@&=+$,.!~*'()[]".contains(&byte) {
                self.skip(1);
            } else {
                return Ok(self.at > start);
            }
        }
    }

    /// Scans one character that is written as `%XX` for each of its octets.
    fn scan_uri_escape(&mut self) -> Result<(), Error> {
        let mut left = None;
        while left != Some(0) {
            let Some(octet) = escaped_octet(&self.source[self.at..]) else {
                return Err(self.error("did not find URI escaped octet"));
            };
            left = Some(match left {
                None => match octet {
                    0..0x80 => 0,
                    0xc0..0xe0 => 1,
                    0xe0..0xf0 => 2,
                    0xf0..0xf8 => 3,
                    _ => return Err(self.error("found an incorrect leading UTF-8 octet")),
                },
                Some(_) if octet & 0xc0 != 0x80 => {
                    return Err(self.error("found an incorrect trailing UTF-8 octet"));
                }
                Some(left) => left - 1,
            });
            self.skip(3);
        }
        Ok(())
    }

    pub(super) fn skip_blanks(&mut self) {
        while self.is_blank() {
            self.skip(1);
        }
    }
}

/// Whether a handle is `!!` or `!word!`.
fn is_handle(handle: &str) -> bool {
    handle.len() > 1 && handle.ends_with('!')
}

/// Handle and suffix of a tag; a tag without a handle is all suffix.
pub(super) fn split(tag: &str) -> (&str, &str) {
    if let Some(uri) = tag.strip_prefix("!<") {
        return ("", uri.strip_suffix('>').unwrap_or(uri));
    }
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let rest = tag.get(1..).unwrap_or_default();
    let len = rest.bytes().take_while(word).count();
    match rest.as_bytes().get(len) {
        Some(b'!') => tag.split_at(len + 2),
        _ if rest.is_empty() => ("", tag),
        _ => ("!", rest),
    }
}

/// Appends an unescaped URI.
pub(super) fn unescape(uri: &str, to: &mut Vec<u8>) {
    let mut rest = uri;
    while let Some((plain, _)) = rest.split_once('%') {
        to.extend_from_slice(plain.as_bytes());
        rest = &rest[plain.len()..];
        to.push(escaped_octet(rest).unwrap_or_default());
        rest = rest.get(3..).unwrap_or_default();
    }
    to.extend_from_slice(rest.as_bytes());
}

/// Octet that is written as `%XX` at the start.
fn escaped_octet(text: &str) -> Option<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    match *text.as_bytes() {
        [b'%', high, low, ..] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    }
}
