//! DER (distinguished encoding rules), as far as certificates and keys need it.

/// Tag of BOOLEAN.
pub const BOOLEAN: u8 = 0x01;
/// Tag of INTEGER.
pub const INTEGER: u8 = 0x02;
/// Tag of BIT STRING: keys and signatures.
pub const BIT_STRING: u8 = 0x03;
/// Tag of OCTET STRING.
pub const OCTET_STRING: u8 = 0x04;
/// Tag of NULL.
pub const NULL: u8 = 0x05;
/// Tag of OBJECT IDENTIFIER: algorithms, attributes and extensions.
pub const OBJECT_IDENTIFIER: u8 = 0x06;
/// Tag of UTF8String.
pub const UTF8_STRING: u8 = 0x0c;
/// Tag of NumericString.
pub const NUMERIC_STRING: u8 = 0x12;
/// Tag of PrintableString.
pub const PRINTABLE_STRING: u8 = 0x13;
/// Tag of T61String, read as Latin-1.
pub const T61_STRING: u8 = 0x14;
/// Tag of IA5String: ASCII.
pub const IA5_STRING: u8 = 0x16;
/// Tag of UTCTime: a year of two digits.
pub const UTC_TIME: u8 = 0x17;
/// Tag of GeneralizedTime: a year of four digits.
pub const GENERALIZED_TIME: u8 = 0x18;
/// Tag of BMPString: UCS-2.
pub const BMP_STRING: u8 = 0x1e;
/// Tag of SEQUENCE.
pub const SEQUENCE: u8 = 0x30;
/// Tag of SET.
pub const SET: u8 = 0x31;

/// Context-specific tag of a constructed element.
pub const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// Marks a multi-byte tag number (above 30), which no structure here has.
const LONG_TAG: u8 = 0x1f;

/// A DER element.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// The tag.
    pub tag: u8,
    /// The contents.
    pub contents: &'a [u8],
    /// The whole element, tag and length included.
    pub whole: &'a [u8],
}

/// Reader of consecutive elements.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next element, if it has this tag.
    pub fn read(&mut self, tag: u8) -> Option<Element<'a>> {
        let (&found, _) = self.0.split_first()?;
        if found == tag { self.next() } else { None }
    }

    /// Reader of the contents of the next element, if it has this tag.
    pub fn open(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.read(tag).map(|element| Reader(element.contents))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        if tag & LONG_TAG == LONG_TAG {
            return None;
        }
        let (length, head) = match first {
            short @ 0..=0x7f => (usize::from(short), 2),
            // Long form, up to 4 GiB; the indefinite form (0x80) is not DER.
            long @ 0x81..=0x84 => {
                let digits = usize::from(long & 0x7f);
                let digits = rest.get(..digits)?;
                let length = digits.iter().fold(0, |length, digit| length << 8 | u32::from(*digit));
                // DER requires the shortest form.
                if length < 0x80 || digits.first() == Some(&0) {
                    return None;
                }
                (usize::try_from(length).ok()?, 2 + digits.len())
            }
            _ => return None,
        };
        let (whole, after) = self.0.split_at_checked(head.checked_add(length)?)?;
        self.0 = after;
        Some(Element { tag, contents: whole.get(head..)?, whole })
    }
}

/// Value of an INTEGER's contents; `None` if negative, not minimally encoded or too long.
pub fn unsigned(contents: &[u8]) -> Option<u64> {
    let digits = match contents {
        [] | [0x80..=0xff, ..] | [0, 0..0x80, ..] => return None,
        [0, digits @ ..] if !digits.is_empty() => digits,
        digits => digits,
    };
    let fits = digits.len() <= size_of::<u64>();
    fits.then(|| digits.iter().fold(0, |number, digit| number << 8 | u64::from(*digit)))
}

/// Encodes an element of less than 16 MiB.
pub fn element(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let contents = contents.concat();
    let mut out = vec![tag];
    match contents.len() {
        length @ 0..0x80 => out.push(length as u8),
        length @ 0x80..0x100 => out.extend_from_slice(&[0x81, length as u8]),
        length @ 0x100..0x1_0000 => {
            out.extend_from_slice(&[0x82, (length >> 8) as u8, length as u8]);
        }
        length => {
            let digits = [(length >> 16) as u8, (length >> 8) as u8, length as u8];
            out.extend_from_slice(&[0x83, digits[0], digits[1], digits[2]]);
        }
    }
    out.extend_from_slice(&contents);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let contents = vec![7; length];
            let written = element(SEQUENCE, &[&contents]);
            let mut reader = Reader(&written);
            assert_eq!(reader.read(INTEGER).map(|_| ()), None);
            let read = reader.read(SEQUENCE).unwrap();
            assert_eq!((read.contents, read.whole), (&contents[..], &written[..]));
            assert!(reader.next().is_none());
        }
    }

    #[test]
    fn truncated_elements_are_rejected() {
        for bytes in [
            &b""[..],
            b"\x30",
            b"\x30\x01",
            b"\x30\x80\x00\x00",
            b"\x30\x82\x01",
            b"\x30\x84\xff\xff\xff\xff",
            b"\x30\x85\x00\x00\x00\x00\x01\x00",
            b"\x30\x81\x01\x00",
            b"\x30\x82\x00\x80",
            b"\x3f\x01\x00",
        ] {
            assert!(Reader(bytes).next().is_none(), "{bytes:x?}");
        }
    }
}
