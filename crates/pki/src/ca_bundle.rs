//! Bundles of trusted CA certificates.

use std::sync::Arc;

use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::verify::{Roots, Verifier, X509};

/// CA bundle of a file such as `--client-ca-file`.
#[derive(Clone, Debug, Default)]
pub struct CaBundle {
    roots: Arc<Roots>,
    pem: Bytes,
}

impl CaBundle {
    /// Parses the certificates of a PEM text; there must be at least one.
    pub fn parse(pem: &[u8]) -> Result<Self, String> {
        let mut roots = Roots::default();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            let read = X509::parse(&Bytes::copy_from_slice(&certificate));
            roots.add(read.map_err(|error| error.to_string())?);
        }
        if roots.is_empty() {
            return Err("data does not contain any valid RSA or ECDSA certificates".to_owned());
        }
        Ok(CaBundle { roots: Arc::new(roots), pem: Bytes::copy_from_slice(pem) })
    }

    /// The CA certificates.
    pub fn roots(&self) -> &Arc<Roots> {
        &self.roots
    }

    /// Verifier that trusts the CA certificates.
    pub fn verifier(&self) -> Verifier {
        Verifier::new(self.roots.clone())
    }

    /// Subjects of the CA certificates, DER-encoded, without the outer SEQUENCE.
    pub fn subjects(&self) -> impl Iterator<Item = &Bytes> {
        self.roots.iter().map(|certificate| &certificate.subject)
    }

    /// The PEM text.
    pub fn pem(&self) -> &Bytes {
        &self.pem
    }
}
