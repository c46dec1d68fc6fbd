//! Reader of ASN.1 structures with the errors of Go's `encoding/asn1`.
//!
//! The reference parses certificate requests with `encoding/asn1`, and its errors reach users: this reader finds the
//! same errors, in the same order and with the same texts.

/// Expected tag: class, number, and whether the element is constructed.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    class: u8,
    number: u8,
    compound: bool,
}

pub const SEQUENCE: Expected = Expected { class: 0, number: 16, compound: true };
pub const SET: Expected = Expected { class: 0, number: 17, compound: true };
pub const INTEGER: Expected = Expected { class: 0, number: 2, compound: false };
pub const BIT_STRING: Expected = Expected { class: 0, number: 3, compound: false };
pub const OBJECT_IDENTIFIER: Expected = Expected { class: 0, number: 6, compound: false };
pub const CONTEXT_0: Expected = Expected { class: 2, number: 0, compound: true };

/// The reference's print of default field parameters.
const PARAMETERS: &str = "{optional:false explicit:false application:false private:false \
                          defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false \
                          omitEmpty:false}";

/// Fields of a structure, in order.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A field of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Asn1<'a> {
    pub contents: &'a [u8],
    pub whole: &'a [u8],
}

struct Head {
    class: u8,
    number: u8,
    compound: bool,
    length: usize,
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes, at: 0 }
    }

    /// The unread rest.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The next field, with this tag; `ty` is the name of its Go type.
    pub fn read(&mut self, expected: Expected, ty: &str) -> Result<Asn1<'a>, String> {
        let (head, start) = self.head()?;
        let Expected { class, number, compound } = expected;
        if (head.class, head.number, head.compound) != (class, number, compound) {
            return Err(format!(
                "asn1: structure error: tags don't match ({number} vs {{class:{} tag:{} length:{} \
                 isCompound:{}}}) {PARAMETERS} {ty} @{start}",
                head.class, head.number, head.length, head.compound
            ));
        }
        self.take(&head, start)
    }

    /// The next field, with any tag.
    pub fn any(&mut self) -> Result<Asn1<'a>, String> {
        let (head, start) = self.head()?;
        self.take(&head, start)
    }

    fn take(&mut self, head: &Head, start: usize) -> Result<Asn1<'a>, String> {
        let end = start.checked_add(head.length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or("asn1: syntax error: data truncated")?;
        let (from, bytes) = (self.at, self.bytes);
        self.at = end;
        let slice = |from| bytes.get(from..end).unwrap_or_default();
        Ok(Asn1 { contents: slice(start), whole: slice(from) })
    }

    /// Tag and length of the next field, and the offset of its contents.
    fn head(&self) -> Result<(Head, usize), String> {
        const TRUNCATED: &str = "asn1: syntax error: truncated tag or length";
        let Some(&tag) = self.bytes.get(self.at) else {
            return Err("asn1: syntax error: sequence truncated".to_owned());
        };
        if tag & 0x1f == 0x1f {
            return Err("asn1: syntax error: non-minimal tag".to_owned());
        }
        let first = *self.bytes.get(self.at + 1).ok_or(TRUNCATED)?;
        let mut start = self.at + 2;
        let length = match first {
            short @ 0..0x80 => usize::from(short),
            0x80 => return Err("asn1: syntax error: indefinite length found (not DER)".to_owned()),
            long => {
                let count = usize::from(long & 0x7f);
                let digits = self.bytes.get(start..start + count).ok_or(TRUNCATED)?;
                start += count;
                long_length(digits)?
            }
        };
        let (class, number) = (tag >> 6, tag & 0x1f);
        Ok((Head { class, number, compound: tag & 0x20 != 0, length }, start))
    }
}

fn long_length(digits: &[u8]) -> Result<usize, String> {
    let mut length = 0usize;
    for &digit in digits {
        // The reference counts in 31 bits.
        if length >= 1 << 23 {
            return Err("asn1: structure error: length too large".to_owned());
        }
        length = length << 8 | usize::from(digit);
        if length == 0 {
            return Err("asn1: structure error: superfluous leading zeros in length".to_owned());
        }
    }
    match length {
        0..0x80 => Err("asn1: structure error: non-minimal length".to_owned()),
        length => Ok(length),
    }
}
