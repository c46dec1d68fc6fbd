//! Signing key of service account tokens.

use std::path::Path;

use rcgen::KeyPair;

use super::der::{self, Reader, element};
use super::files::{Batch, Readable, pem};

/// prime256v1 (P-256), DER-encoded.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];

/// Adds the pair of files of a new key to the batch, if there is no private key yet: ECDSA P-256, the private key in
/// SEC 1 form, the only form of an ECDSA key that the reference reads for both `--service-account-signing-key-file` and
/// `--service-account-key-file`.
pub(super) fn ensure(private: &Path, public: &Path, batch: &mut Batch) -> Result<(), String> {
    if private.exists() {
        // The public key file may be elsewhere or not needed: the private key contains it.
        return Ok(());
    }
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let sec1 = sec1(key.serialized_der()).ok_or("cannot read the key just made")?;
    batch.add(public, key.public_key_pem(), Readable::ByOwner);
    batch.add(private, pem("EC PRIVATE KEY", &sec1), Readable::ByOwner);
    Ok(())
}

/// Converts a P-256 key from PKCS #8 to SEC 1 form.
fn sec1(pkcs8: &[u8]) -> Option<Vec<u8>> {
    let mut outer = Reader(pkcs8).open(der::SEQUENCE)?;
    let _version = outer.read(der::INTEGER)?;
    let _algorithm = outer.read(der::SEQUENCE)?;
    let mut inner = outer.open(der::OCTET_STRING)?.open(der::SEQUENCE)?;
    let version = inner.read(der::INTEGER)?;
    let secret = inner.read(der::OCTET_STRING)?;
    let public = inner.open(der::context(1))?.read(der::BIT_STRING)?;
    // In PKCS #8 the curve stands outside; SEC 1 needs it inside.
    let curve = element(der::OBJECT_IDENTIFIER, &[P256]);
    let curve = element(der::context(0), &[&curve]);
    let public = element(der::context(1), &[public.whole]);
    Some(element(der::SEQUENCE, &[version.whole, secret.whole, &curve, &public]))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn the_key_is_readable_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = (folder.path().join("sa.key"), folder.path().join("sa.pub"));
        let ensure = || {
            let mut batch = Batch::default();
            super::ensure(&private, &public, &mut batch).and_then(|()| batch.write()).unwrap();
        };
        ensure();
        let text = std::fs::read_to_string(&private).unwrap();
        assert!(text.starts_with("-----BEGIN EC PRIVATE KEY-----\n"));
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap();
        assert!(matches!(key, PrivateKeyDer::Sec1(_)));
        rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
        let public_text = std::fs::read_to_string(&public).unwrap();
        assert!(public_text.starts_with("-----BEGIN PUBLIC KEY-----"));
        ensure();
        assert_eq!(std::fs::read_to_string(&private).unwrap(), text);
    }
}
