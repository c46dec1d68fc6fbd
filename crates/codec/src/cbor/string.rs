//! Strings: text that is UTF-8, and bytes that stand for text too.

use std::borrow::Cow;

use compact_str::CompactString;

use super::error::{Error, Major, Result};
use super::reader::CborReader;
use super::tag;
use crate::{base64, protobuf};

/// Encoding of byte strings where a text is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaterEncoding {
    Base64Url,
    Base64,
    Base16,
}

impl LaterEncoding {
    /// The one that a tag asks for.
    pub(super) fn of(tag: u64) -> Option<Self> {
        match tag {
            tag::BASE64_URL => Some(LaterEncoding::Base64Url),
            tag::BASE64 => Some(LaterEncoding::Base64),
            tag::BASE16 => Some(LaterEncoding::Base16),
            _ => None,
        }
    }

    fn text(self, bytes: &[u8]) -> CompactString {
        match self {
            LaterEncoding::Base64Url => base64::encode_url(bytes).into(),
            LaterEncoding::Base64 => base64::encode(bytes),
            LaterEncoding::Base16 => {
                let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
                bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
            }
        }
    }
}

impl<'i> CborReader<'i> {
    /// The text of a string of either type. Bytes that are not UTF-8 are replaced, as Go prints them.
    pub(super) fn text(&mut self) -> Result<CompactString> {
        if Major::of(self.peek()) == Major::Text {
            let bytes = self.utf8()?;
            return Ok(protobuf::text(&bytes));
        }
        let bytes = self.bytes()?;
        Ok(match self.later {
            Some(later) => later.text(&bytes),
            None => protobuf::text(&bytes),
        })
    }

    /// The bytes of a string of either type.
    pub(super) fn bytes(&mut self) -> Result<Cow<'i, [u8]>> {
        self.string(|_| {})
    }

    /// The bytes of a text string, of which each chunk must be UTF-8.
    pub(super) fn utf8(&mut self) -> Result<Cow<'i, [u8]>> {
        let mut valid = true;
        let bytes = self.string(|chunk| valid &= std::str::from_utf8(chunk).is_ok())?;
        if valid { Ok(bytes) } else { Err(Error::InvalidUtf8.into()) }
    }

    /// The bytes of a string, whose chunks are visited. A chunk of one byte may be empty: chunks are joined as they come.
    fn string(&mut self, mut visit: impl FnMut(&'i [u8])) -> Result<Cow<'i, [u8]>> {
        let head = self.head()?;
        if !head.is_indefinite() {
            let bytes = self.take(head.argument)?;
            visit(bytes);
            return Ok(Cow::Borrowed(bytes));
        }
        let mut joined = Vec::new();
        while self.peek() != super::head::BREAK {
            kevel_compute::charge(1);
            let chunk = self.head()?;
            let chunk = self.take(chunk.argument)?;
            visit(chunk);
            joined.extend_from_slice(chunk);
        }
        self.head()?;
        Ok(joined.into())
    }

    fn take(&mut self, length: u64) -> Result<&'i [u8]> {
        let length = usize::try_from(length).map_err(|_| Error::UnexpectedEof)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Error::UnexpectedEof)?;
        self.rest = rest;
        Ok(bytes)
    }
}
