//! Temporary keys and certificates of one control plane, and kubeconfigs of its clients.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use crate::{Result, namespaces};

/// Client certificates: file name, user, group.
const CLIENTS: [(&str, &str, &str); 6] = [
    ("admin", "admin", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("front-proxy", "front-proxy", ""),
    ("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
    ("kube-proxy", "system:kube-proxy", ""),
];

/// Names of the serving certificate; the last one is the `kubernetes` service's address.
const NAMES: [&str; 8] = [
    "localhost",
    "127.0.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    namespaces::ADDRESS,
    "10.96.0.1",
];

/// Bootstrap token, which `conformance/node/bootstrap.yaml` creates.
const BOOTSTRAP_TOKEN: &str = "abcdef.0123456789abcdef";

/// Writes `ca`, `server`, `kubelet`, `service-account` and the clients' files into a folder, with kubeconfigs for
/// `https://127.0.0.1:port`.
pub fn write(folder: &Path, port: u16) -> Result<()> {
    fs::create_dir_all(folder)?;
    let (params, key) = (authority(), KeyPair::generate()?);
    fs::write(folder.join("ca.crt"), params.self_signed(&key)?.pem())?;
    fs::write(folder.join("ca.key"), key.serialize_pem())?;
    let issuer = Issuer::new(params, key);

    for (file, names) in [("server", &NAMES[..]), ("kubelet", &["node1", namespaces::ADDRESS][..])]
    {
        let mut server =
            CertificateParams::new(names.iter().copied().map(String::from).collect::<Vec<_>>())?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        sign(folder, file, server, &issuer)?;
    }
    let tokens = KeyPair::generate()?;
    fs::write(folder.join("service-account.key"), tokens.serialize_pem())?;
    fs::write(folder.join("service-account.pub"), tokens.public_key_pem())?;

    let write_kubeconfig = |file: &str, user: &str| -> Result<()> {
        let text = kubeconfig(&folder.join("ca.crt"), user, port);
        Ok(fs::write(folder.join(format!("{file}.kubeconfig")), text)?)
    };
    for (file, user, group) in CLIENTS {
        let mut client = CertificateParams::default();
        client.distinguished_name = DistinguishedName::new();
        client.distinguished_name.push(DnType::CommonName, user);
        if !group.is_empty() {
            client.distinguished_name.push(DnType::OrganizationName, group);
        }
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        sign(folder, file, client, &issuer)?;
        let folder = folder.display();
        let user =
            format!("client-certificate: {folder}/{file}.crt, client-key: {folder}/{file}.key");
        write_kubeconfig(file, &user)?;
    }
    write_kubeconfig("bootstrap", &format!("token: {BOOTSTRAP_TOKEN}"))
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

/// Kubeconfig of a user with these credentials.
fn kubeconfig(ca: &Path, user: &str, port: u16) -> String {
    let ca = ca.display();
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: conformance
  cluster: {{server: \"https://127.0.0.1:{port}\", certificate-authority: {ca}}}
users:
- name: user
  user: {{{user}}}
contexts:
- name: conformance
  context: {{cluster: conformance, user: user}}
current-context: conformance
"
    )
}
