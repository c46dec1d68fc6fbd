//! Servers' certificates in TLS handshakes.

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

/// Accepts servers whose certificate the [`Verifier`] trusts for the name that was dialled.
#[derive(Debug)]
pub struct TrustedServer {
    verifier: Verifier,
    algorithms: WebPkiSupportedAlgorithms,
}

impl TrustedServer {
    /// Trusts these certificates.
    pub fn new(roots: Arc<Roots>) -> Self {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        TrustedServer { verifier: Verifier::new(roots), algorithms }
    }
}

impl ServerCertVerifier for TrustedServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let host = match server_name {
            ServerName::IpAddress(address) => Host::Address((*address).into()),
            name => Host::Name(name.to_str().into_owned()),
        };
        let shown = std::iter::once(end_entity).chain(intermediates);
        let shown: Vec<_> = shown.map(|der| Bytes::copy_from_slice(der)).collect();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs());
        match self.verifier.verify(&shown, Purpose::ServerAuth, now, Some(&host)) {
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

/// The verifier's reason, if a connection failed because of it. Libraries wrap errors in others.
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

/// Accepts any server that holds its certificate's key (`insecureSkipTLSVerify`).
#[derive(Debug)]
pub struct AnyServer(WebPkiSupportedAlgorithms);

impl Default for AnyServer {
    fn default() -> Self {
        AnyServer(ring::default_provider().signature_verification_algorithms)
    }
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
