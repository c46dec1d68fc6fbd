//! Certificates for tests.

use std::path::Path;
use std::time::SystemTime;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};

/// Certificate authority of a test.
#[derive(Debug)]
pub struct Ca {
    /// Issuer that signs certificates.
    pub issuer: Issuer<'static, KeyPair>,
    /// Certificate of the authority (PEM).
    pub pem: String,
    key: String,
}

impl Ca {
    /// Makes an authority with this common name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let text = key.serialize_pem();
        Ca { issuer: Issuer::new(params, key), pem, key: text }
    }

    /// Issues a certificate with a new key; returns both as PEM.
    pub fn issue(&self, params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Issues a client certificate with this common name.
    pub fn client(&self, name: &str) -> (String, String) {
        self.issue(client(name))
    }

    /// A client's certificate with this common name that expires at a time.
    pub fn client_until(&self, name: &str, end: SystemTime) -> (String, String) {
        let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let mut params = client(name);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end;
        self.issue(params)
    }

    /// Issues a server certificate for this name or address.
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

fn client(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// Writes a certificate and its key as `name.crt` and `name.key`.
pub fn write_pair(folder: &Path, name: &str, (certificate, key): &(String, String)) {
    std::fs::write(folder.join(format!("{name}.crt")), certificate).unwrap();
    std::fs::write(folder.join(format!("{name}.key")), key).unwrap();
}
