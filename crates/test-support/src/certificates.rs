//! Certificates of a test's own.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};

/// A certificate authority of a test's own.
#[derive(Debug)]
pub struct Ca {
    /// Signs certificates.
    pub issuer: Issuer<'static, KeyPair>,
    /// The authority's certificate.
    pub pem: String,
    key: String,
}

impl Ca {
    /// An authority with this common name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let text = key.serialize_pem();
        Ca { issuer: Issuer::new(params, key), pem, key: text }
    }

    /// A certificate with a new key: both as PEM.
    pub fn issue(&self, params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A client's certificate with this common name.
    pub fn client(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    /// The certificate of a server that is reached by this name or address.
    pub fn server(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// Writes the authority as `ca.crt` and `ca.key`.
    pub fn write(&self, folder: &Path) {
        write_pair(folder, "ca", &(self.pem.clone(), self.key.clone()));
    }
}

/// Writes a certificate and its key as `name.crt` and `name.key`.
pub fn write_pair(folder: &Path, name: &str, (certificate, key): &(String, String)) {
    std::fs::write(folder.join(format!("{name}.crt")), certificate).unwrap();
    std::fs::write(folder.join(format!("{name}.key")), key).unwrap();
}
