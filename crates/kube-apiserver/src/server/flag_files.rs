//! Files that flags name, tried before anything is made or opened: a mistake names the flag and the file.

use std::path::PathBuf;
use std::sync::Arc;

use kevel_server::certificates::{CaBundle, certified_key};
use rustls::crypto::{CryptoProvider, ring};

use crate::options::{ServerRunOptions, file_problem};

/// A file that does not do for its flag.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagFileError {
    /// The file cannot be read.
    #[error("--{flag}: open {}: {why}", path.display())]
    Unreadable {
        /// Flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Reason of the error.
        why: String,
    },
    /// The file has no certificates of authorities.
    #[error("--{flag}: {}: {why}", path.display())]
    Bundle {
        /// Flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Reason of the error.
        why: String,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error(
        "--{given} is given without --{missing}: a certificate and its private key go together"
    )]
    Half {
        /// Flag that is given.
        given: &'static str,
        /// Flag that is not.
        missing: &'static str,
    },
    /// The files are no certificate and its private key.
    #[error("{certificate} and {key}: {why}")]
    Pair {
        /// Flag and file of the certificate.
        certificate: String,
        /// Flag and file of the private key.
        key: String,
        /// Reason of the error.
        why: String,
    },
}

/// A flag and the file that it names, which may be empty.
type FlagFile<'o> = (&'static str, &'o str);

/// Reads the files of flags whose own errors do not name the flag, and checks that keys belong to certificates.
pub fn check(flags: &ServerRunOptions) -> Result<(), FlagFileError> {
    check_readable(flags)?;
    let (etcd, misc) = (&flags.etcd, &flags.misc);
    for bundle in [
        ("etcd-cafile", etcd.etcd_cafile.as_str()),
        ("client-ca-file", &flags.authentication.client_ca_file),
        ("requestheader-client-ca-file", &flags.authentication.requestheader_client_ca_file),
        ("kubelet-certificate-authority", &misc.kubelet_certificate_authority),
    ] {
        check_bundle(bundle)?;
    }
    let provider = Arc::new(ring::default_provider());
    let etcd_pair = (("etcd-certfile", &etcd.etcd_certfile), ("etcd-keyfile", &etcd.etcd_keyfile));
    let proxy_pair = (
        ("proxy-client-cert-file", &misc.proxy_client_cert_file),
        ("proxy-client-key-file", &misc.proxy_client_key_file),
    );
    for ((certificate_flag, certificate), (key_flag, key)) in [etcd_pair, proxy_pair] {
        check_pair((certificate_flag, certificate), (key_flag, key), &provider)?;
    }
    let kubelet_pair = (
        ("kubelet-client-certificate", misc.kubelet_client_certificate.as_str()),
        ("kubelet-client-key", misc.kubelet_client_key.as_str()),
    );
    // One without the other is no identity, as in the reference.
    if !kubelet_pair.0.1.is_empty() && !kubelet_pair.1.1.is_empty() {
        check_pair(kubelet_pair.0, kubelet_pair.1, &provider)?;
    }
    check_serving(flags, &provider)
}

fn check_readable(flags: &ServerRunOptions) -> Result<(), FlagFileError> {
    let (authentication, authorization) = (&flags.authentication, &flags.authorization);
    let files = [
        ("audit-policy-file", &flags.audit.audit_policy_file),
        ("audit-webhook-config-file", &flags.audit.audit_webhook_config_file),
        (
            "authentication-token-webhook-config-file",
            &authentication.authentication_token_webhook_config_file,
        ),
        ("authorization-policy-file", &authorization.authorization_policy_file),
        ("authorization-webhook-config-file", &authorization.authorization_webhook_config_file),
        ("token-auth-file", &authentication.token_auth_file),
    ];
    let given = flags.given.has("service_account_key_file");
    let keys = authentication.service_account_key_file.iter().filter(|_| given);
    let keys = keys.map(|key| ("service-account-key-file", key));
    let mut files = files.into_iter().chain(keys).filter(|(_, path)| !path.is_empty());
    files.try_for_each(|(flag, path)| read((flag, path)).map(|_| ()))
}

/// The files of the serving certificates. Completed options also name files that the server makes.
fn check_serving(flags: &ServerRunOptions, provider: &CryptoProvider) -> Result<(), FlagFileError> {
    let serving = &flags.secure_serving;
    if flags.given.has_any(&["tls_cert_file", "tls_private_key_file"]) {
        let certificate = ("tls-cert-file", serving.tls_cert_file.as_str());
        check_pair(certificate, ("tls-private-key-file", &serving.tls_private_key_file), provider)?;
    }
    let flag = "tls-sni-cert-key";
    serving
        .tls_sni_cert_key
        .0
        .iter()
        .try_for_each(|pair| check_pair((flag, &pair.cert_file), (flag, &pair.key_file), provider))
}

fn check_bundle((flag, path): FlagFile<'_>) -> Result<(), FlagFileError> {
    if path.is_empty() {
        return Ok(());
    }
    let pem = read((flag, path))?;
    let unusable = |why| FlagFileError::Bundle { flag, path: path.into(), why };
    CaBundle::parse(&pem).map(|_| ()).map_err(unusable)
}

fn check_pair(
    certificate: FlagFile<'_>,
    key: FlagFile<'_>,
    provider: &CryptoProvider,
) -> Result<(), FlagFileError> {
    match (certificate.1, key.1) {
        ("", "") => return Ok(()),
        ("", _) => return Err(FlagFileError::Half { given: key.0, missing: certificate.0 }),
        (_, "") => return Err(FlagFileError::Half { given: certificate.0, missing: key.0 }),
        _ => {}
    }
    let shown = |(flag, path): FlagFile<'_>| format!("--{flag}={path}");
    let (chain, private) = (read(certificate)?, read(key)?);
    certified_key(&chain, &private, provider).map(|_| ()).map_err(|why| FlagFileError::Pair {
        certificate: shown(certificate),
        key: shown(key),
        why,
    })
}

fn read((flag, path): FlagFile<'_>) -> Result<Vec<u8>, FlagFileError> {
    std::fs::read(path).map_err(|error| FlagFileError::Unreadable {
        flag,
        path: path.into(),
        why: file_problem(&error),
    })
}
