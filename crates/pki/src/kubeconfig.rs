//! Kubeconfig files.

use super::authority::Issued;

/// Text of a kubeconfig with one cluster and one user, with embedded certificates and key.
pub fn kubeconfig(
    server: &str,
    certificate_authority: &str,
    user: &str,
    issued: &Issued,
) -> String {
    let encode = |pem: &str| kevel_codec::base64::encode(pem.as_bytes());
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: kevel\n\
         \x20 cluster:\n\
         \x20   certificate-authority-data: {ca}\n\
         \x20   server: {server}\n\
         contexts:\n\
         - name: {user}@kevel\n\
         \x20 context:\n\
         \x20   cluster: kevel\n\
         \x20   user: {user}\n\
         current-context: {user}@kevel\n\
         preferences: {{}}\n\
         users:\n\
         - name: {user}\n\
         \x20 user:\n\
         \x20   client-certificate-data: {certificate}\n\
         \x20   client-key-data: {key}\n",
        ca = encode(certificate_authority),
        certificate = encode(&issued.certificate),
        key = encode(&issued.key),
    )
}
