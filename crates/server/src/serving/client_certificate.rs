//! Client certificates in the handshake.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::RawPublicKeyEntity;

use crate::certificates::Certificate;

/// Asks for a client certificate and takes any, or none: who the client is, authentication says
/// for each request, against authorities that change while connections stay. The handshake only
/// makes sure that the client has the key of what it shows.
#[derive(Debug)]
pub(super) struct AnyClientCertificate {
    /// The authorities whose certificates are welcome, for clients that have several to choose from.
    pub hints: Vec<DistinguishedName>,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = public_key(certificate)?;
        let key = RawPublicKeyEntity::try_from(&key).map_err(|_| bad_encoding())?;
        let mut schemes = self.algorithms.mapping.iter();
        // In TLS 1.2 a scheme of ECDSA does not say which curve it is.
        let algorithms = schemes.find(|(scheme, _)| *scheme == signed.scheme);
        let algorithms = algorithms.map_or(&[][..], |(_, algorithms)| *algorithms);
        let valid = |algorithm: &&dyn rustls::pki_types::SignatureVerificationAlgorithm| {
            key.verify_signature(*algorithm, message, signed.signature()).is_ok()
        };
        match algorithms.iter().any(valid) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = public_key(certificate)?;
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The key alone, so that a certificate that has other faults is judged where they are logged.
fn public_key<'a>(
    certificate: &'a CertificateDer<'_>,
) -> Result<SubjectPublicKeyInfoDer<'a>, Error> {
    let read = Certificate::read(certificate).ok_or_else(bad_encoding)?;
    Ok(SubjectPublicKeyInfoDer::from(read.public_key()))
}

fn bad_encoding() -> Error {
    Error::InvalidCertificate(CertificateError::BadEncoding)
}
