//! Throw-away keys and certificates of one control plane, and a kubeconfig for each who needs one.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use crate::Result;

/// Who gets a client certificate: the name of the files, the user, the group.
const CLIENTS: [(&str, &str, &str); 4] = [
    ("admin", "admin", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("front-proxy", "front-proxy", ""),
];

/// What a serving certificate is good for; the last one is the `kubernetes` service's first address.
const NAMES: [&str; 6] = [
    "localhost",
    "127.0.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "10.96.0.1",
];

/// Writes `ca`, `server`, `service-account` and the clients' files into a folder, with kubeconfigs
/// that lead to `https://127.0.0.1:port`.
pub fn write(folder: &Path, port: u16) -> Result<()> {
    fs::create_dir_all(folder)?;
    let (params, key) = (authority(), KeyPair::generate()?);
    fs::write(folder.join("ca.crt"), params.self_signed(&key)?.pem())?;
    fs::write(folder.join("ca.key"), key.serialize_pem())?;
    let issuer = Issuer::new(params, key);

    let mut server = CertificateParams::new(NAMES.map(String::from))?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(folder, "server", server, &issuer)?;
    let tokens = KeyPair::generate()?;
    fs::write(folder.join("service-account.key"), tokens.serialize_pem())?;
    fs::write(folder.join("service-account.pub"), tokens.public_key_pem())?;

    for (file, user, group) in CLIENTS {
        let mut client = CertificateParams::default();
        client.distinguished_name = DistinguishedName::new();
        client.distinguished_name.push(DnType::CommonName, user);
        if !group.is_empty() {
            client.distinguished_name.push(DnType::OrganizationName, group);
        }
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        sign(folder, file, client, &issuer)?;
        fs::write(folder.join(format!("{file}.kubeconfig")), kubeconfig(folder, file, port))?;
    }
    Ok(())
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "throw-away");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn sign(
    folder: &Path,
    file: &str,
    params: CertificateParams,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<()> {
    let key = KeyPair::generate()?;
    fs::write(folder.join(format!("{file}.crt")), params.signed_by(&key, issuer)?.pem())?;
    fs::write(folder.join(format!("{file}.key")), key.serialize_pem())?;
    Ok(())
}

fn kubeconfig(folder: &Path, user: &str, port: u16) -> String {
    let folder = folder.display();
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: conformance
  cluster:
    server: https://127.0.0.1:{port}
    certificate-authority: {folder}/ca.crt
users:
- name: {user}
  user:
    client-certificate: {folder}/{user}.crt
    client-key: {folder}/{user}.key
contexts:
- name: conformance
  context: {{cluster: conformance, user: {user}}}
current-context: conformance
"
    )
}
