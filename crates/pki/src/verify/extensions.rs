//! Extensions of certificates that verification reads (RFC 5280, section 4.2).

use super::error::VerifyError;
use super::name_constraints::NameConstraints;
use super::policies::Policies;
use super::x509::malformed;
use crate::certificate::AltNames;
use crate::der::{self, Reader};

/// Prefix of the identifiers of RFC 5280's extensions (2.5.29).
const STANDARD: &[u8] = &[0x55, 0x1d];
/// 1.3.6.1.5.5.7.1.1 (authority information access)
const AUTHORITY_INFO_ACCESS: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 1];
/// `anyExtendedKeyUsage`
pub(super) const ANY_USAGE: &[u8] = &[0x55, 0x1d, 37, 0];
/// `keyCertSign`, the sixth bit of a key usage.
const KEY_CERT_SIGN: u8 = 0x04;

/// Extensions of one certificate.
#[derive(Clone, Debug, Default)]
pub(super) struct Extensions {
    /// `None` without the extension.
    pub basic_constraints: Option<BasicConstraints>,
    pub key_usage: KeyUsage,
    /// DER-encoded identifiers; empty without the extension.
    pub extended_key_usages: Vec<Vec<u8>>,
    pub name_constraints: Option<NameConstraints>,
    pub policies: Policies,
    /// Whether there is an unsupported critical extension.
    pub has_unhandled: bool,
}

/// Basic constraints: whether a certificate is a CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BasicConstraints {
    pub is_ca: bool,
    /// Maximum number of intermediates below the certificate.
    pub max_path_length: Option<u64>,
}

/// Key usage, as far as signing goes. A usage without any bit counts as none, as in Go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KeyUsage {
    #[default]
    Unrestricted,
    Certificates,
    NoCertificates,
}

/// The extensions, and those whose bytes are slices of the certificate.
#[derive(Debug)]
pub(super) struct Read<'a> {
    pub facts: Extensions,
    pub alt_names: Option<&'a [u8]>,
    pub subject_key_id: &'a [u8],
    pub authority_key_id: &'a [u8],
}

impl Extensions {
    /// Parses the list of extensions, without the outer SEQUENCE.
    pub fn parse(list: &[u8]) -> Result<Read<'_>, VerifyError> {
        let facts = Extensions::default();
        // An empty slice of the certificate, as `slice_ref` requires.
        let none = list.get(..0).unwrap_or_default();
        let mut read =
            Read { facts, alt_names: None, subject_key_id: none, authority_key_id: none };
        for extension in Reader(list) {
            let mut fields = Reader(extension.contents);
            let name = fields.read(der::OBJECT_IDENTIFIER);
            let name = name.ok_or_else(|| malformed("x509: malformed extension OID field"))?;
            let critical = match fields.read(der::BOOLEAN).map(|flag| flag.contents) {
                None | Some([0]) => false,
                Some([0xff]) => true,
                Some(_) => return Err(malformed("x509: malformed extension critical field")),
            };
            let value = fields.read(der::OCTET_STRING);
            let value = value.ok_or_else(|| malformed("x509: malformed extension value field"))?;
            let handled = read.take(name.contents, critical, value.contents)?;
            read.facts.has_unhandled |= critical && !handled;
        }
        Ok(read)
    }
}

impl<'a> Read<'a> {
    /// Takes one extension. Returns whether it is supported.
    fn take(&mut self, name: &[u8], critical: bool, value: &'a [u8]) -> Result<bool, VerifyError> {
        if name == AUTHORITY_INFO_ACCESS && critical {
            return Err(malformed("x509: authority info access incorrectly marked critical"));
        }
        let Some([number]) = name.strip_prefix(STANDARD) else {
            return Ok(name == AUTHORITY_INFO_ACCESS);
        };
        match number {
            14 if critical => {
                return Err(malformed("x509: subject key identifier incorrectly marked critical"));
            }
            14 => self.subject_key_id = subject_key_id(value)?,
            15 => self.facts.key_usage = key_usage(value)?,
            17 => {
                self.alt_names = Some(value);
                let names = AltNames::parse(value).map_err(VerifyError::Malformed)?;
                return Ok(!names.is_empty());
            }
            19 => self.facts.basic_constraints = Some(basic_constraints(value)?),
            30 => {
                let (constraints, handled) = NameConstraints::parse(value)?;
                self.facts.name_constraints = Some(constraints);
                return Ok(handled);
            }
            31 => {}
            32 | 33 | 36 | 54 => self.facts.policies.take(*number, value)?,
            35 if critical => {
                return Err(malformed(
                    "x509: authority key identifier incorrectly marked critical",
                ));
            }
            35 => self.authority_key_id = authority_key_id(value)?,
            37 => self.facts.extended_key_usages = extended_key_usages(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn subject_key_id(value: &[u8]) -> Result<&[u8], VerifyError> {
    let read = Reader(value).read(der::OCTET_STRING);
    Ok(read.ok_or_else(|| malformed("x509: invalid subject key identifier"))?.contents)
}

fn authority_key_id(value: &[u8]) -> Result<&[u8], VerifyError> {
    let fields = Reader(value).open(der::SEQUENCE);
    let mut fields = fields.ok_or_else(|| malformed("x509: invalid authority key identifier"))?;
    let none = value.get(..0).unwrap_or_default();
    Ok(fields.read(0x80).map_or(none, |element| element.contents))
}

fn key_usage(value: &[u8]) -> Result<KeyUsage, VerifyError> {
    let read = Reader(value).read(der::BIT_STRING).and_then(|bits| bits.contents.split_first());
    let (_unused, bits) = read.ok_or_else(|| malformed("x509: invalid key usage"))?;
    // Nine bits have a meaning: the first byte, and the highest bit of the second.
    let first = bits.first().copied().unwrap_or_default();
    let second = bits.get(1).copied().unwrap_or_default() & 0x80;
    Ok(match (first, second) {
        (0, 0) => KeyUsage::Unrestricted,
        (bits, _) if bits & KEY_CERT_SIGN != 0 => KeyUsage::Certificates,
        _ => KeyUsage::NoCertificates,
    })
}

fn basic_constraints(value: &[u8]) -> Result<BasicConstraints, VerifyError> {
    let invalid = || malformed("x509: invalid basic constraints");
    let mut fields = Reader(value).open(der::SEQUENCE).ok_or_else(invalid)?;
    let is_ca = match fields.read(der::BOOLEAN).map(|flag| flag.contents) {
        None | Some([0]) => false,
        Some([0xff]) => true,
        Some(_) => return Err(invalid()),
    };
    let max_path_length = match fields.read(der::INTEGER) {
        Some(number) => Some(der::unsigned(number.contents).ok_or_else(invalid)?),
        None => None,
    };
    Ok(BasicConstraints { is_ca, max_path_length })
}

fn extended_key_usages(value: &[u8]) -> Result<Vec<Vec<u8>>, VerifyError> {
    let invalid = || malformed("x509: invalid extended key usages");
    let mut list = Reader(value).open(der::SEQUENCE).ok_or_else(invalid)?;
    let mut usages = Vec::new();
    while !list.0.is_empty() {
        let usage = list.read(der::OBJECT_IDENTIFIER).ok_or_else(invalid)?;
        usages.push(usage.contents.to_vec());
    }
    Ok(usages)
}
