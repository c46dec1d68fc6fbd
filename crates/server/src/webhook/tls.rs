//! TLS as a client: the authorities that it trusts, and the certificate that it sends.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::endpoint::{Endpoint, Identity};
use crate::certificates::{Dynamic, certified_key, handshake};

/// How an endpoint is spoken to.
pub fn config(endpoint: &Endpoint) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match (&endpoint.ca, endpoint.insecure_skip_tls_verify) {
        (_, true) => {
            let algorithms = provider.signature_verification_algorithms;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(algorithms)))
        }
        (Some(pem), false) => builder.with_root_certificates(roots(pem)?),
        // A system without authorities trusts no server.
        (None, false) => match builder.clone().with_native_roots() {
            Ok(builder) => builder,
            Err(_) => builder.with_root_certificates(RootCertStore::empty()),
        },
    };
    Ok(match &endpoint.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            builder.with_client_cert_resolver(Arc::new(Shown::new(identity, provider)?))
        }
    })
}

/// The authorities of a bundle. As in the reference, one that can be read is enough; the others vouch for nobody.
fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let mut wrong = "unable to parse bytes as PEM block".to_owned();
    for certificate in CertificateDer::pem_slice_iter(pem).flatten() {
        if let Err(error) = roots.add(certificate) {
            wrong = format!("failed to parse certificate: {error}");
        }
    }
    match roots.is_empty() {
        true => Err(format!("unable to load root certificates: {wrong}")),
        false => Ok(roots),
    }
}

/// The certificate that is shown to a server that asks for one.
#[derive(Debug)]
struct Shown(Dynamic<Arc<CertifiedKey>>);

impl Shown {
    fn new(identity: &Identity, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let key = match identity {
            Identity::Pem { certificate, key } => {
                Dynamic::fixed(Arc::new(certified_key(certificate, key, &provider)?))
            }
            Identity::Files { certificate, key } => {
                Dynamic::load("client-cert", &[certificate, key], move |files| match files {
                    [certificate, key] => certified_key(certificate, key, &provider).map(Arc::new),
                    _ => Err("a certificate and a key are needed".to_owned()),
                })?
            }
        };
        Ok(Shown(key))
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some((*self.0.current()).clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Accepts any certificate whose key the server holds.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        handshake::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        handshake::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
