//! Signatures of TLS handshakes, verified with a certificate's key alone.
//!
//! For peers whose certificates are verified elsewhere, or not at all: whatever else is wrong with a certificate (its
//! version, its extensions), the peer must hold its key.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use rustls::{CertificateError, DigitallySignedStruct, Error};
use webpki::RawPublicKeyEntity;

use super::certificate::Certificate;

/// Verifies a TLS 1.2 handshake signature with the certificate's key.
pub fn verify_tls12_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let key = public_key(certificate)?;
    let key = RawPublicKeyEntity::try_from(&key).map_err(|_| bad_encoding())?;
    // In TLS 1.2 an ECDSA scheme does not name the curve.
    let mut schemes = algorithms.mapping.iter();
    let algorithms = schemes.find(|(scheme, _)| *scheme == signed.scheme);
    let algorithms = algorithms.map_or(&[][..], |(_, algorithms)| *algorithms);
    let valid = |algorithm: &&dyn SignatureVerificationAlgorithm| {
        key.verify_signature(*algorithm, message, signed.signature()).is_ok()
    };
    match algorithms.iter().any(valid) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
    }
}

/// Verifies a TLS 1.3 handshake signature with the certificate's key.
pub fn verify_tls13_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls13_signature_with_raw_key(message, &public_key(certificate)?, signed, algorithms)
}

fn public_key<'a>(
    certificate: &'a CertificateDer<'_>,
) -> Result<SubjectPublicKeyInfoDer<'a>, Error> {
    let read = Certificate::read(certificate).ok_or_else(bad_encoding)?;
    Ok(SubjectPublicKeyInfoDer::from(read.public_key()))
}

fn bad_encoding() -> Error {
    Error::InvalidCertificate(CertificateError::BadEncoding)
}
