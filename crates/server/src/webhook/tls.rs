//! TLS as a client: the authorities that it trusts, and the certificate that it sends.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use webpki::EndEntityCert;

use super::endpoint::{Endpoint, Identity};
use kevel_pki::direct::{Purpose, verify_directly};
use kevel_pki::{Certificate, Dynamic, certified_key, handshake};

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
        (Some(pem), false) => {
            let verifier = Arc::new(Trusting::new(roots(pem)?, provider.clone())?);
            builder.dangerous().with_custom_certificate_verifier(verifier)
        }
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

/// Trusts the authorities of a bundle, and certificates that are in the bundle themselves.
#[derive(Debug)]
struct Trusting {
    roots: Arc<RootCertStore>,
    paths: Arc<WebPkiServerVerifier>,
}

impl Trusting {
    fn new(roots: RootCertStore, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let roots = Arc::new(roots);
        let paths = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider).build();
        Ok(Trusting { roots, paths: paths.map_err(|error| error.to_string())? })
    }

    /// Whether a certificate counts that the path builder does not take.
    fn verify_directly(&self, certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
        let Some(read) = Certificate::read(certificate) else { return false };
        let direct = verify_directly(&read, &self.roots.roots, Purpose::ServerAuth);
        let named = EndEntityCert::try_from(certificate)
            .and_then(|entity| entity.verify_is_valid_for_subject_name(name));
        direct.is_ok() && named.is_ok()
    }
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let by_path = self.paths.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        by_path.or_else(|error| match self.verify_directly(end_entity, server_name) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(error),
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.paths.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.paths.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.paths.supported_verify_schemes()
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };

    use super::*;

    /// What people give to servers: an authority for `localhost`, changed.
    fn params(change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        params
    }

    fn is_trusted(shown: &rcgen::Certificate, bundle: &rcgen::Certificate) -> bool {
        let provider = Arc::new(ring::default_provider());
        let roots = roots(bundle.pem().as_bytes()).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let trusting = Trusting::new(roots, provider).unwrap();
        trusting.verify_server_cert(shown.der(), &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn a_certificate_of_the_bundle_is_trusted() {
        let self_signed =
            |params: CertificateParams| params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let own = self_signed(params(|_| {}));
        assert!(is_trusted(&own, &own));
        assert!(!is_trusted(&own, &self_signed(params(|_| {}))), "of the same name");
        let yesterday = SystemTime::now() - Duration::from_secs(86400);
        for (why, params) in [
            ("expired", params(|params| params.not_after = yesterday.into())),
            ("for others", CertificateParams::new(vec!["other".to_owned()]).unwrap()),
            (
                "for clients",
                params(|params| {
                    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]
                }),
            ),
        ] {
            let own = self_signed(params);
            assert!(!is_trusted(&own, &own), "{why}");
        }
    }

    #[test]
    fn an_authority_may_be_a_server() {
        let key = KeyPair::generate().unwrap();
        let root = params(|_| {}).self_signed(&key).unwrap();
        let issuer = Issuer::new(params(|_| {}), key);
        let below = params(|_| {}).signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        assert!(is_trusted(&below, &root));
        let forged = Issuer::new(params(|_| {}), KeyPair::generate().unwrap());
        let forged = params(|_| {}).signed_by(&KeyPair::generate().unwrap(), &forged).unwrap();
        assert!(!is_trusted(&forged, &root));
    }
}
