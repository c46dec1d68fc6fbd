//! Certificate authorities that are trusted.

use bytes::Bytes;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, TrustAnchor};

use super::certificate::Certificate;

/// The authorities of a file such as `--client-ca-file`.
#[derive(Clone, Debug, Default)]
pub struct CaBundle {
    pub(super) anchors: Vec<TrustAnchor<'static>>,
    subjects: Vec<Vec<u8>>,
    pem: Bytes,
}

impl CaBundle {
    /// Reads the certificates of a PEM text; there must be one at least.
    pub fn parse(pem: &[u8]) -> Result<Self, String> {
        let mut bundle = CaBundle { pem: Bytes::copy_from_slice(pem), ..CaBundle::default() };
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            bundle.add(&certificate)?;
        }
        if bundle.anchors.is_empty() {
            return Err("data does not contain any valid RSA or ECDSA certificates".to_owned());
        }
        Ok(bundle)
    }

    fn add(&mut self, certificate: &CertificateDer<'_>) -> Result<(), String> {
        let read = Certificate::read(certificate).ok_or("x509: malformed certificate")?;
        let anchor = webpki::anchor_from_trusted_cert(certificate);
        let anchor = anchor.map_err(|error| format!("x509: malformed certificate: {error}"))?;
        self.anchors.push(anchor.to_owned());
        self.subjects.push(read.raw_subject().to_vec());
        Ok(())
    }

    /// The names of the authorities, encoded, without the sequences around them.
    pub fn subjects(&self) -> &[Vec<u8>] {
        &self.subjects
    }

    /// The text that was read.
    pub fn pem(&self) -> &Bytes {
        &self.pem
    }
}
