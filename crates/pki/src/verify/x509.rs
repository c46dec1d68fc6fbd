//! Certificates parsed for verification, as Go's `x509.ParseCertificate` does.

use std::time::SystemTime;

use bytes::Bytes;

use super::error::VerifyError;
use super::extensions::Extensions;
use super::{Purpose, rules};
use crate::certificate::{AltNames, Certificate};
use crate::der::{self, Reader};
use crate::public_key::{PublicKey, SignatureAlgorithm};

/// Version of certificates with extensions.
const VERSION_3: u8 = 3;

/// Certificate of a chain. Its parts share the bytes of `raw`.
#[derive(Clone, Debug)]
pub struct X509 {
    /// The whole certificate, as DER.
    pub raw: Bytes,
    /// The subject, DER-encoded, without the outer SEQUENCE.
    pub subject: Bytes,
    /// The issuer, DER-encoded, without the outer SEQUENCE.
    pub issuer: Bytes,
    /// The last common name of the subject.
    pub common_name: String,
    /// Start of the validity period.
    pub not_before: SystemTime,
    /// End of the validity period.
    pub not_after: SystemTime,
    pub(super) version: u8,
    pub(super) to_be_signed: Bytes,
    pub(super) algorithm: SignatureAlgorithm,
    pub(super) signature: Bytes,
    pub(super) public_key: Bytes,
    pub(super) names: AltNames,
    /// The value of the subject alternative name extension.
    pub(super) alt_names: Option<Bytes>,
    pub(super) subject_key_id: Bytes,
    pub(super) authority_key_id: Bytes,
    pub(super) extensions: Extensions,
    organization: Option<String>,
    serial: String,
}

impl X509 {
    /// Parses a certificate; the error has the parser's text.
    pub fn parse(raw: &Bytes) -> Result<Self, VerifyError> {
        let (read, rest) = Certificate::parse(raw).map_err(VerifyError::Malformed)?;
        if !rest.is_empty() {
            return Err(malformed("x509: trailing data"));
        }
        let part = |slice: &[u8]| raw.slice_ref(slice);
        let validity = read.not_before().zip(read.not_after());
        let (not_before, not_after) =
            validity.ok_or_else(|| malformed("x509: malformed validity"))?;
        let version = read.version;
        let list = if version == VERSION_3 { read.extensions } else { &[] };
        let extensions = Extensions::parse(list)?;
        let subject = read.subject();
        let names = match extensions.alt_names {
            Some(value) => AltNames::parse(value).map_err(VerifyError::Malformed)?,
            None => AltNames::default(),
        };
        Ok(X509 {
            raw: raw.clone(),
            subject: part(read.raw_subject()),
            issuer: part(read.raw_issuer()),
            common_name: subject.common_name,
            organization: subject.organizations.into_iter().next(),
            serial: read.serial_number(),
            not_before,
            not_after,
            version,
            to_be_signed: part(read.signed_part()),
            algorithm: algorithm(read.signature_algorithm()),
            signature: part(read.signature()),
            public_key: part(read.public_key()),
            names,
            alt_names: extensions.alt_names.map(part),
            subject_key_id: part(extensions.subject_key_id),
            authority_key_id: part(extensions.authority_key_id),
            extensions: extensions.facts,
        })
    }

    /// Checks that the certificate can sign for a purpose now. Name constraints and path length depend on the signed
    /// certificate and are not checked.
    pub fn check_as_signer(&self, purpose: Purpose, now: SystemTime) -> Result<(), VerifyError> {
        rules::check_anchor(self, purpose, now)
    }

    /// Name of a candidate authority in messages.
    pub fn shown_name(&self) -> String {
        match (&self.common_name, &self.organization) {
            (name, _) if !name.is_empty() => name.clone(),
            (_, Some(organization)) => organization.clone(),
            _ => format!("serial:{}", self.serial),
        }
    }

    pub(super) fn key(&self) -> Result<PublicKey<'_>, VerifyError> {
        PublicKey::parse(&self.public_key).map_err(malformed)
    }
}

pub(super) fn malformed(text: &str) -> VerifyError {
    VerifyError::Malformed(text.to_owned())
}

fn algorithm(identifier: &[u8]) -> SignatureAlgorithm {
    let mut fields = Reader(identifier);
    match fields.read(der::OBJECT_IDENTIFIER) {
        Some(name) => SignatureAlgorithm::of(name.contents, fields.0),
        None => SignatureAlgorithm::Unknown,
    }
}
