//! A certificate with its private key, read from PEM.

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::certificate::Certificate;

/// Parses a certificate chain, the own certificate first, and its private key, which must match.
///
/// Not `CertifiedKey::from_der`, which accepts X.509 v3 only: `openssl x509 -req` without extensions makes v1
/// certificates.
pub fn certified_key(
    certificate: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| format!("tls: {error}"))?;
    let own = chain.first().ok_or("tls: failed to find any PEM data in certificate input")?;
    let read = Certificate::read(own).ok_or("x509: malformed certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| "tls: failed to find any PEM data in key input")?;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|error| format!("tls: failed to parse private key: {error}"))?;
    if key.public_key().is_some_and(|public| *public != *read.public_key()) {
        return Err("tls: private key does not match public key".to_owned());
    }
    Ok(CertifiedKey::new(chain, key))
}
