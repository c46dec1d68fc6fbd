//! Server certificates in TLS handshakes.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use super::{Host, Purpose, Roots, Verifier, VerifyError};
use crate::handshake;

/// Verifier of server certificates for rustls: accepts those that the [`Verifier`] trusts for the dialled name. The
/// server must hold the certificate's key in any case.
#[derive(Debug)]
pub struct ServerVerifier {
    /// `None` for `insecureSkipTLSVerify`.
    verifier: Option<Verifier>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    /// A verifier that trusts these certificates.
    pub fn new(roots: Arc<Roots>) -> Self {
        ServerVerifier { verifier: Some(Verifier::new(roots)), ..ServerVerifier::insecure() }
    }

    /// A verifier that accepts any certificate (`insecureSkipTLSVerify`).
    pub fn insecure() -> Self {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        ServerVerifier { verifier: None, algorithms }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(verifier) = &self.verifier else { return Ok(ServerCertVerified::assertion()) };
        let host = match server_name {
            ServerName::IpAddress(address) => Host::Address((*address).into()),
            name => Host::Name(name.to_str().into_owned()),
        };
        let shown = std::iter::once(end_entity).chain(intermediates);
        let shown: Vec<_> = shown.map(|der| Bytes::copy_from_slice(der)).collect();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs());
        match verifier.verify(&shown, Purpose::ServerAuth, now, Some(&host)) {
            Ok(_) => Ok(ServerCertVerified::assertion()),
            Err(error) => {
                let error = CertificateError::Other(OtherError(Arc::new(error)));
                Err(Error::InvalidCertificate(error))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The verifier's error, if it made a connection fail. Libraries wrap it in other errors.
pub fn refusal<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e VerifyError> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|cause| {
        if let Some(inner) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            return refusal(inner);
        }
        match cause.downcast_ref::<Error>() {
            Some(Error::InvalidCertificate(CertificateError::Other(OtherError(inner)))) => {
                inner.downcast_ref()
            }
            _ => None,
        }
    })
}
