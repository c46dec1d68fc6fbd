//! TLS as a client: the authorities that it trusts, and the certificate that it sends.

use std::sync::Arc;

use kevel_kubeconfig::{ExecKeyPair, ExecPlugin};
use kevel_pki::verify::{Roots, ServerVerifier};
use kevel_pki::{Dynamic, certified_key};
use rustls::client::ResolvesClientCert;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};

use super::endpoint::{Credentials, Endpoint, Identity};

/// TLS configuration of an endpoint.
pub fn config(endpoint: &Endpoint) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier: Arc<dyn ServerCertVerifier> =
        match (&endpoint.ca, endpoint.insecure_skip_tls_verify) {
            (_, true) => Arc::new(ServerVerifier::insecure()),
            (Some(pem), false) => Arc::new(ServerVerifier::new(roots(pem)?)),
            (None, false) => Arc::new(ServerVerifier::new(Roots::of_system())),
        };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    Ok(match (&endpoint.identity, &endpoint.credentials) {
        (Some(identity), _) => {
            builder.with_client_cert_resolver(Arc::new(Shown::new(identity, provider)?))
        }
        (None, Credentials::Exec(plugin)) => {
            let plugin = plugin.clone();
            builder.with_client_cert_resolver(Arc::new(OfPlugin { plugin, provider }))
        }
        (None, _) => builder.with_no_client_auth(),
    })
}

/// The authorities of a bundle. As in the reference, one that can be read is enough.
fn roots(pem: &[u8]) -> Result<Arc<Roots>, String> {
    let mut roots = Roots::default();
    let wrong = roots.add_pem(pem);
    match (roots.is_empty(), wrong) {
        (false, _) => Ok(Arc::new(roots)),
        (true, Some(error)) => {
            Err(format!("unable to load root certificates: failed to parse certificate: {error}"))
        }
        (true, None) => {
            Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned())
        }
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

/// The certificate of a credential plug-in, which is asked before each call.
#[derive(Debug)]
struct OfPlugin {
    plugin: Arc<ExecPlugin>,
    provider: Arc<CryptoProvider>,
}

impl ResolvesClientCert for OfPlugin {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let current = self.plugin.current()?;
        let ExecKeyPair { certificate, key } = current.key_pair.as_ref()?;
        let pair = certified_key(certificate.as_bytes(), key.as_bytes(), &self.provider);
        if let Err(error) = &pair {
            tracing::error!(error, "failed parsing client key/certificate of an exec plugin");
        }
        pair.ok().map(Arc::new)
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };

    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    /// Parameters of a server certificate as users make them: an authority for `localhost`, changed.
    fn params(change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        params
    }

    fn is_trusted(shown: &rcgen::Certificate, bundle: &rcgen::Certificate) -> bool {
        let name = ServerName::try_from("localhost").unwrap();
        let trusting = ServerVerifier::new(roots(bundle.pem().as_bytes()).unwrap());
        trusting.verify_server_cert(shown.der(), &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn a_certificate_of_the_bundle_is_trusted() {
        let self_signed =
            |params: CertificateParams| params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let own = self_signed(params(|_| {}));
        assert!(is_trusted(&own, &own));
        assert!(!is_trusted(&own, &self_signed(params(|_| {}))), "of the same name");
        let yesterday = kevel_clock::Clock::system().now() - Duration::from_secs(86400);
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
