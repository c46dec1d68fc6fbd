//! Protobuf wire format: tags, varints and lengths.

use super::Error;
use super::error::Result;

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const DELIMITED: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// Key of a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub tag: i32,
    pub wire_type: u8,
}

impl Key {
    /// Error if the wire type is not the expected one; `field` names the member.
    pub(super) fn expect(self, wire_type: u8, field: impl FnOnce() -> String) -> Result<()> {
        if self.wire_type == wire_type {
            Ok(())
        } else {
            Err(Error::WrongWireType { field: field(), wire_type: self.wire_type }.into())
        }
    }

    /// Consumes the same key if it follows, as it does before the next element of a list.
    #[inline]
    pub(super) fn repeats(self, input: &mut &[u8]) -> bool {
        let mut ahead = *input;
        let again = varint(&mut ahead)
            .is_ok_and(|wire| wire == (self.tag as u64) << 3 | u64::from(self.wire_type));
        if again {
            *input = ahead;
        }
        again
    }

    /// Bytes of a length-delimited member.
    pub(super) fn delimited<'i>(
        self,
        input: &mut &'i [u8],
        field: impl FnOnce() -> String,
    ) -> Result<&'i [u8]> {
        self.expect(DELIMITED, field)?;
        delimited(input)
    }
}

/// Visits the members of a message. `member` decodes the value behind a key, or returns false for an unknown tag; the
/// value is then skipped.
pub(super) fn members<'i>(
    mut input: &'i [u8],
    message: &str,
    mut member: impl FnMut(Key, &mut &'i [u8]) -> Result<bool>,
) -> Result<()> {
    while !input.is_empty() {
        kevel_compute::charge(1);
        let start = input;
        let wire = varint(&mut input)?;
        // The reference truncates a tag to 32 bits.
        let key = Key { tag: (wire >> 3) as i32, wire_type: (wire & 7) as u8 };
        if key.wire_type == END_GROUP {
            return Err(Error::GroupInMessage { message: message.to_owned() }.into());
        }
        if key.tag <= 0 {
            let message = message.to_owned();
            return Err(Error::IllegalTag { message, tag: key.tag, wire }.into());
        }
        if !member(key, &mut input)? {
            input = start;
            skip(&mut input)?;
        }
    }
    Ok(())
}

/// Decodes a number of at most 64 bits; excess bits of a tenth byte are dropped.
#[inline]
pub(super) fn varint(input: &mut &[u8]) -> Result<u64> {
    match *input {
        [byte, rest @ ..] if *byte < 0x80 => {
            *input = rest;
            Ok((*byte).into())
        }
        _ => long_varint(input),
    }
}

fn long_varint(input: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for (i, &byte) in input.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *input = &input[i + 1..];
            return Ok(value);
        }
    }
    Err(if input.len() < 10 { Error::UnexpectedEof } else { Error::Overflow }.into())
}

/// Decodes a length and that many bytes.
#[inline]
pub(super) fn delimited<'i>(input: &mut &'i [u8]) -> Result<&'i [u8]> {
    let length = varint(input)?;
    if length > i64::MAX as u64 {
        return Err(Error::NegativeLength.into());
    }
    take(input, usize::try_from(length).unwrap_or(usize::MAX))
}

/// Takes a number of bytes.
#[inline]
pub(super) fn take<'i>(input: &mut &'i [u8], length: usize) -> Result<&'i [u8]> {
    let (taken, rest) = input.split_at_checked(length).ok_or(Error::UnexpectedEof)?;
    *input = rest;
    Ok(taken)
}

/// Skips a key and its value; groups, which are obsolete, with their content.
pub(super) fn skip(input: &mut &[u8]) -> Result<()> {
    let mut groups = 0usize;
    loop {
        match (varint(input)? & 7) as u8 {
            VARINT => _ = varint(input)?,
            FIXED64 => _ = take(input, 8)?,
            DELIMITED => _ = delimited(input)?,
            START_GROUP => groups += 1,
            END_GROUP => groups = groups.checked_sub(1).ok_or(Error::EndOfGroup)?,
            FIXED32 => _ = take(input, 4)?,
            illegal => return Err(Error::IllegalWireType(illegal).into()),
        }
        if groups == 0 {
            return Ok(());
        }
    }
}

/// Buffer that is filled from its end: a message's length is known when it is written.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Buffer { bytes: vec![0; capacity], start: capacity }
    }

    /// Number of bytes written.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes[self.start..].to_vec()
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.claim(bytes.len()).copy_from_slice(bytes);
    }

    #[inline]
    pub(super) fn varint(&mut self, value: u64) {
        if value < 0x80 {
            self.claim(1)[0] = value as u8;
        } else {
            self.long_varint(value);
        }
    }

    fn long_varint(&mut self, mut value: u64) {
        let length = (64 - (value | 1).leading_zeros()).div_ceil(7) as usize;
        for byte in self.claim(length) {
            *byte = value as u8 & 0x7f | if value < 0x80 { 0 } else { 0x80 };
            value >>= 7;
        }
    }

    pub(super) fn key(&mut self, tag: u16, wire_type: u8) {
        self.varint(u64::from(tag) << 3 | u64::from(wire_type));
    }

    /// Makes the bytes written since the length was `end` a member.
    pub(super) fn delimit(&mut self, tag: u16, end: usize) {
        self.prefix(tag, DELIMITED, (self.len() - end) as u64);
    }

    /// Writes a numeric member.
    pub(super) fn number(&mut self, tag: u16, value: u64) {
        self.prefix(tag, VARINT, value);
    }

    /// Writes a member of text or bytes.
    pub(super) fn text(&mut self, tag: u16, bytes: &[u8]) {
        self.bytes(bytes);
        self.prefix(tag, DELIMITED, bytes.len() as u64);
    }

    /// Writes a key and the number after it, usually two bytes.
    #[inline]
    fn prefix(&mut self, tag: u16, wire_type: u8, value: u64) {
        if tag < 16 && value < 0x80 {
            self.claim(2).copy_from_slice(&[(tag as u8) << 3 | wire_type, value as u8]);
        } else {
            self.varint(value);
            self.key(tag, wire_type);
        }
    }

    #[inline]
    fn claim(&mut self, length: usize) -> &mut [u8] {
        if self.start < length {
            self.grow(length);
        }
        self.start -= length;
        &mut self.bytes[self.start..self.start + length]
    }

    #[cold]
    fn grow(&mut self, length: usize) {
        let (old, written) = (self.bytes.len(), self.len());
        let mut bytes = vec![0; (old * 2).max(written + length)];
        let start = bytes.len() - written;
        bytes[start..].copy_from_slice(&self.bytes[self.start..]);
        (self.bytes, self.start) = (bytes, start);
    }
}
