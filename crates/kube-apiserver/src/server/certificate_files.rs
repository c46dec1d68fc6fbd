//! Certificate files of the flags: what is wrong with them is said when the server starts.
//!
//! A certificate that has expired, or soon will, and a bundle with a certificate that cannot sign any
//! more are legal: the reference starts with them too, and requests fail later.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kevel_server::certificates::verify::{Purpose, X509};
use kevel_server::certificates::{PkiFiles, pem_certificates, warn_unable_to_sign};
use kevel_server::metrics::{Description, Metrics};

use crate::options::CompletedOptions;

/// Certificates that end within this time are named in the log.
const EXPIRES_SOON: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A certificate with a private key, by the flag that names its file.
#[derive(Clone, Debug)]
struct KeyPairFile {
    flag: &'static str,
    path: PathBuf,
}

/// Logs invalid or expiring certificates, and exports their expiry as a metric.
pub fn watch_over(
    options: &CompletedOptions,
    serving: &Path,
    own: Option<&PkiFiles>,
    metrics: &Metrics,
) {
    let now = options.clock.now();
    // Other bundles are told of where they are loaded, which for most of them is more than once.
    let etcd = &options.flags.etcd.etcd_cafile;
    warn_unable_to_sign(etcd, Purpose::ServerAuth, std::fs::read(etcd).ok());
    let files = key_pairs(options, serving, own);
    files.iter().for_each(|file| say_end(file, now));
    show_ends(files, metrics);
}

fn key_pairs(
    options: &CompletedOptions,
    serving: &Path,
    own: Option<&PkiFiles>,
) -> Vec<KeyPairFile> {
    let flags = &options.flags;
    let clients = [
        ("etcd-certfile", &flags.etcd.etcd_certfile),
        ("kubelet-client-certificate", &flags.misc.kubelet_client_certificate),
        ("proxy-client-cert-file", &flags.misc.proxy_client_cert_file),
    ];
    let clients = clients.into_iter().filter(|(_, path)| !path.is_empty());
    let clients = clients.map(|(flag, path)| KeyPairFile { flag, path: PathBuf::from(path) });
    let names = flags.secure_serving.tls_sni_cert_key.0.iter();
    let names = names.map(|pair| PathBuf::from(&pair.cert_file));
    let names = names.map(|path| KeyPairFile { flag: "tls-sni-cert-key", path });
    let serving = KeyPairFile { flag: "tls-cert-file", path: serving.to_owned() };
    let own = own.map(|files| KeyPairFile { flag: "own-ca", path: files.ca_certificate.clone() });
    std::iter::once(serving).chain(names).chain(clients).chain(own).collect()
}

/// End of validity and name of the first certificate of a file.
fn end(path: &Path) -> Option<(SystemTime, String)> {
    let pem = std::fs::read(path).ok()?;
    let certificate = X509::parse(pem_certificates(&pem).first()?).ok()?;
    Some((certificate.not_after, certificate.shown_name()))
}

fn say_end(file: &KeyPairFile, now: SystemTime) {
    let Some((end, subject)) = end(&file.path) else { return };
    let (flag, path) = (file.flag, file.path.display());
    match end.duration_since(now) {
        Err(_) => {
            tracing::error!(flag, file = %path, subject, "The certificate has expired: peers refuse it");
        }
        Ok(left) if left < EXPIRES_SOON => {
            let days = left.as_secs() / 86_400;
            tracing::warn!(flag, file = %path, subject, days, "The certificate expires soon");
        }
        Ok(_) => {}
    }
}

/// Shows the end of each certificate. The files are read at each scrape: they may have changed.
fn show_ends(files: Vec<KeyPairFile>, metrics: &Metrics) {
    let ends = metrics.gauge(Description {
        name: "kevel_certificate_expiration_timestamp_seconds",
        help: "[ALPHA] When the certificates that the server shows to others expire, in seconds \
               since 1970, by flag and file.",
        labels: &["flag", "file"],
    });
    metrics.before_show(move || {
        for file in &files {
            let Some((end, _)) = end(&file.path) else { continue };
            let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let path = file.path.display().to_string();
            let end = i64::try_from(end.as_secs()).unwrap_or(i64::MAX);
            ends.with(&[file.flag, &path]).set(end);
        }
    });
}
