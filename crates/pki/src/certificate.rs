//! Fields of X.509 certificates.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use super::der::{self, Element, Reader};

/// Object identifiers, DER-encoded.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
/// 1.3.6.1.4.1.57683.2: Kubernetes' identifier for the uid of a user.
const USER_UID: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2];
const SUBJECT_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 14];
pub(super) const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 35];

/// The parts of a certificate that are used here. Parsing verifies nothing.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// Version: 1, 2 or 3.
    pub(super) version: u8,
    to_be_signed: &'a [u8],
    serial: &'a [u8],
    issuer: &'a [u8],
    subject: &'a [u8],
    validity: [Element<'a>; 2],
    public_key: &'a [u8],
    pub(super) extensions: &'a [u8],
    signature_algorithm: &'a [u8],
    signature: &'a [u8],
}

/// The attributes of a distinguished name that Kubernetes reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// CN: the last one.
    pub common_name: String,
    /// O: all of them.
    pub organizations: Vec<String>,
    /// Kubernetes' uid: all of them.
    pub uids: Vec<String>,
}

/// Subject alternative names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AltNames {
    /// DNS names, of which the first label may be `*`.
    pub dns_names: Vec<String>,
    /// IP addresses.
    pub ips: Vec<IpAddr>,
    /// Email addresses.
    pub emails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
}

impl<'a> Certificate<'a> {
    /// Parses a certificate; `None` if the bytes are not one.
    pub fn read(certificate: &'a [u8]) -> Option<Self> {
        let mut signed = Reader(certificate).open(der::SEQUENCE)?;
        let whole = signed.read(der::SEQUENCE)?;
        let signature_algorithm = signed.read(der::SEQUENCE)?.contents;
        // A signature has whole bytes: no unused bits.
        let signature = signed.read(der::BIT_STRING)?.contents.strip_prefix(&[0])?;
        let mut to_be_signed = Reader(whole.contents);
        let version = match to_be_signed.open(der::context(0)) {
            Some(mut version) => version.read(der::INTEGER)?.contents.last()?.saturating_add(1),
            None => 1,
        };
        let serial = to_be_signed.read(der::INTEGER)?.contents;
        let _algorithm = to_be_signed.read(der::SEQUENCE)?;
        let issuer = to_be_signed.read(der::SEQUENCE)?.contents;
        let mut validity = to_be_signed.open(der::SEQUENCE)?;
        let validity = [validity.next()?, validity.next()?];
        let subject = to_be_signed.read(der::SEQUENCE)?.contents;
        let public_key = to_be_signed.read(der::SEQUENCE)?.whole;
        let extensions = to_be_signed.find(|element| element.tag == der::context(3));
        let extensions = match extensions {
            Some(element) => Reader(element.contents).read(der::SEQUENCE)?.contents,
            None => &[],
        };
        let to_be_signed = whole.whole;
        Some(Certificate {
            version,
            to_be_signed,
            serial,
            issuer,
            subject,
            validity,
            public_key,
            extensions,
            signature_algorithm,
            signature,
        })
    }

    /// The issuer's name, DER-encoded, without the outer SEQUENCE.
    pub(super) fn raw_issuer(&self) -> &'a [u8] {
        self.issuer
    }

    /// Signed bytes (`tbsCertificate`).
    pub(super) fn signed_part(&self) -> &'a [u8] {
        self.to_be_signed
    }

    /// Signature algorithm: identifier and parameters.
    pub(super) fn signature_algorithm(&self) -> &'a [u8] {
        self.signature_algorithm
    }

    /// The signature.
    pub(super) fn signature(&self) -> &'a [u8] {
        self.signature
    }

    /// The serial number in decimal.
    pub(super) fn serial_number(&self) -> String {
        decimal(self.serial)
    }

    /// The subject's name, DER-encoded, without the outer SEQUENCE.
    pub fn raw_subject(&self) -> &'a [u8] {
        self.subject
    }

    /// The public key with its algorithm, DER-encoded.
    pub fn public_key(&self) -> &'a [u8] {
        self.public_key
    }

    /// The subject of the certificate.
    pub fn subject(&self) -> Name {
        Name::read(self.subject)
    }

    /// Start of the validity period.
    pub fn not_before(&self) -> Option<SystemTime> {
        time(self.validity[0])
    }

    /// End of the validity period.
    pub fn not_after(&self) -> Option<SystemTime> {
        time(self.validity[1])
    }

    /// Subject alternative names.
    pub fn alt_names(&self) -> AltNames {
        self.extension(SUBJECT_ALT_NAME).map(AltNames::read).unwrap_or_default()
    }

    /// Identifier of a certificate in the reference's log lines.
    pub fn identifier(&self) -> String {
        let hex = |bytes: &[u8]| {
            let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            pairs.join(":")
        };
        let own = self.extension(SUBJECT_KEY_IDENTIFIER);
        let own = own.and_then(|value| Reader(value).read(der::OCTET_STRING));
        let authority = self.extension(AUTHORITY_KEY_IDENTIFIER);
        let authority = authority.and_then(|value| Reader(value).open(der::SEQUENCE)?.read(0x80));
        format!(
            "SN={}, SKID={}, AKID={}",
            decimal(self.serial),
            hex(own.map_or(&[], |element| element.contents)),
            hex(authority.map_or(&[], |element| element.contents)),
        )
    }

    pub(super) fn extension(&self, wanted: &[u8]) -> Option<&'a [u8]> {
        Reader(self.extensions)
            .find_map(|extension| {
                let mut extension = Reader(extension.contents);
                let found = extension.read(der::OBJECT_IDENTIFIER)?.contents;
                let _critical = extension.read(der::BOOLEAN);
                (found == wanted).then(|| extension.read(der::OCTET_STRING))?
            })
            .map(|value| value.contents)
    }
}

impl AltNames {
    /// Names in the value of the extension; invalid ones are left out.
    pub(super) fn read(value: &[u8]) -> Self {
        let mut names = AltNames::default();
        let list = Reader(value).open(der::SEQUENCE);
        for name in list.into_iter().flatten() {
            match name.tag {
                0x81 => names.emails.extend(String::from_utf8(name.contents.to_vec())),
                0x82 => names.dns_names.extend(String::from_utf8(name.contents.to_vec())),
                0x86 => names.uris.extend(String::from_utf8(name.contents.to_vec())),
                0x87 => names.ips.extend(address(name.contents)),
                _ => {}
            }
        }
        names
    }
}

impl Name {
    /// Parses a DER-encoded name, without the outer SEQUENCE.
    pub(super) fn read(encoded: &[u8]) -> Self {
        let mut name = Name::default();
        for (kind, value) in attributes(encoded) {
            match kind {
                COMMON_NAME => name.common_name = value,
                ORGANIZATION => name.organizations.push(value),
                USER_UID => name.uids.push(value),
                _ => {}
            }
        }
        name
    }
}

/// Attributes of a DER-encoded name, without the outer SEQUENCE: object identifier and text.
pub(super) fn attributes(encoded: &[u8]) -> Vec<(&[u8], String)> {
    let mut found = Vec::new();
    for set in Reader(encoded).filter(|element| element.tag == der::SET) {
        for attribute in Reader(set.contents) {
            let mut attribute = Reader(attribute.contents);
            let Some(kind) = attribute.read(der::OBJECT_IDENTIFIER) else { continue };
            if let Some(value) = attribute.next().and_then(text) {
                found.push((kind.contents, value));
            }
        }
    }
    found
}

/// A string of any of the types that names have (upstream: `parseASN1String`). A value that could not be read would leave
/// a user the common name before it.
fn text(value: Element<'_>) -> Option<String> {
    match value.tag {
        der::BMP_STRING => {
            let (units, rest) = value.contents.as_chunks::<2>();
            // One zero at the end is not a part of the text.
            let units = units.strip_suffix(&[[0, 0]]).unwrap_or(units);
            let units: Vec<_> = units.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
            String::from_utf16(&units).ok().filter(|_| rest.is_empty())
        }
        der::T61_STRING => Some(value.contents.iter().copied().map(char::from).collect()),
        _ => String::from_utf8(value.contents.to_vec()).ok(),
    }
}

pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let sixteen = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| sixteen()).ok()
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`, of a moment that the calendar has.
pub(super) fn time(value: Element<'_>) -> Option<SystemTime> {
    let digits = value.contents.strip_suffix(b"Z")?;
    // Numbers that are parsed may have a sign.
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = std::str::from_utf8(digits.get(from..to)?).ok()?;
        digits.parse::<i64>().ok()
    };
    let (year, at) = match (value.tag, digits.len()) {
        // RFC 5280: years from 50 on are of the 20th century.
        (der::UTC_TIME, 12) => (number(0, 2).map(|y| if y < 50 { 2000 + y } else { 1900 + y })?, 2),
        (der::GENERALIZED_TIME, 14) => (number(0, 4)?, 4),
        _ => return None,
    };
    let [month, day, hour, minute, second] =
        [0, 2, 4, 6, 8].map(|offset| number(at + offset, at + offset + 2));
    let (month, day, hour, minute, second) = (month?, day?, hour?, minute?, second?);
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let days_of_month = days_since_1970(next_year, next_month, 1) - days_since_1970(year, month, 1);
    let is_date = (1..=12).contains(&month) && (1..=days_of_month).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days_since_1970(year, month, day);
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    let distance = Duration::from_secs(seconds.unsigned_abs());
    match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(distance),
        false => SystemTime::UNIX_EPOCH.checked_add(distance),
    }
}

/// Days of the Gregorian calendar. Years are counted from March on, so that the leap day is last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// A serial number in decimal. Bytes beyond the 32nd are ignored; RFC 5280 allows 20.
fn decimal(bytes: &[u8]) -> String {
    let mut digits = vec![0u8];
    for &byte in bytes.iter().take(32) {
        let mut carry = u32::from(byte);
        for digit in &mut digits {
            let value = u32::from(*digit) * 256 + carry;
            *digit = (value % 10) as u8;
            carry = value / 10;
        }
        while carry > 0 {
            digits.push((carry % 10) as u8);
            carry /= 10;
        }
    }
    digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let at = |tag, text: &str| {
            let time = time(Element { tag, contents: text.as_bytes(), whole: &[] })?;
            Some(match time.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(after) => after.as_secs() as i64,
                Err(before) => -(before.duration().as_secs() as i64),
            })
        };
        for (tag, text, expected) in [
            (der::UTC_TIME, "700101000000Z", Some(0)),
            (der::UTC_TIME, "261115223724Z", Some(1_794_782_244)),
            (der::UTC_TIME, "500101000000Z", Some(-631_152_000)),
            (der::GENERALIZED_TIME, "20360229120000Z", Some(2_087_899_200)),
            (der::GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
            (der::UTC_TIME, "2611152237Z", None),
            (der::UTC_TIME, "26111522372xZ", None),
            (der::UTC_TIME, "2611+5223724Z", None),
            (der::UTC_TIME, "261115-23724Z", None),
            (der::UTC_TIME, "260015223724Z", None),
            (der::UTC_TIME, "261315223724Z", None),
            (der::UTC_TIME, "261100223724Z", None),
            (der::UTC_TIME, "261131223724Z", None),
            (der::UTC_TIME, "260229120000Z", None),
            (der::UTC_TIME, "261231240000Z", None),
            (der::UTC_TIME, "261231236000Z", None),
            (der::UTC_TIME, "261231235960Z", None),
            (der::UTC_TIME, "261231235959Z", Some(1_798_761_599)),
            (der::UTC_TIME, "", None),
        ] {
            assert_eq!(at(tag, text), expected, "{text}");
        }
    }

    #[test]
    fn last_common_name_counts_whatever_its_string_type() {
        let name = |tag: u8, contents: &[u8]| {
            let attribute = |tag, contents| {
                let kind = der::element(der::OBJECT_IDENTIFIER, &[COMMON_NAME]);
                let value = der::element(tag, &[contents]);
                let attribute = der::element(der::SEQUENCE, &[&kind, &value]);
                der::element(der::SET, &[&attribute])
            };
            let sets = [attribute(der::UTF8_STRING, b"first"), attribute(tag, contents)].concat();
            Name::read(&sets).common_name
        };
        for (tag, contents, expected) in [
            (der::UTF8_STRING, &b"\xc3\xa9"[..], "\u{e9}"),
            (der::T61_STRING, b"\xe9", "\u{e9}"),
            (der::BMP_STRING, b"\0j\0o\0e", "joe"),
            (der::BMP_STRING, b"\0j\0o\0e\0\0", "joe"),
        ] {
            assert_eq!(name(tag, contents), expected, "{tag:x}");
        }
    }

    #[test]
    fn serial_numbers_are_decimal() {
        for (bytes, expected) in [
            (&[0][..], "0"),
            (&[1, 0], "256"),
            (&[0x7f; 8], "9187201950435737471"),
            (&[0xff; 16], "340282366920938463463374607431768211455"),
        ] {
            assert_eq!(decimal(bytes), expected);
        }
    }

    #[test]
    fn rubbish_is_no_certificate() {
        for bytes in [&b""[..], b"\x30\x03\x30\x01\x02", &[0x30; 200]] {
            assert!(Certificate::read(bytes).is_none());
        }
    }
}
