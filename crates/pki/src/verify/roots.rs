//! Sets of certificates (upstream: `CertPool`).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;

use super::x509::X509;
use super::{Purpose, VerifyError};
use crate::pem_certificates;

/// Set of certificates, indexed by subject: trusted roots, or the intermediates of a peer.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    certificates: Vec<Arc<X509>>,
    by_subject: HashMap<Bytes, Vec<usize>>,
}

impl Roots {
    /// Set of these certificates, without duplicates.
    pub fn new(certificates: impl IntoIterator<Item = X509>) -> Self {
        let mut roots = Roots::default();
        certificates.into_iter().for_each(|certificate| roots.add(certificate));
        roots
    }

    /// Adds a certificate, unless it is in the set.
    pub fn add(&mut self, certificate: X509) {
        if !self.contains(&certificate) {
            let place = self.certificates.len();
            self.by_subject.entry(certificate.subject.clone()).or_default().push(place);
            self.certificates.push(Arc::new(certificate));
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// The certificates, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<X509>> {
        self.certificates.iter()
    }

    /// Certificates whose signatures do not count now, by name, with the violated rule.
    pub fn unable_to_sign(&self, purpose: Purpose, now: SystemTime) -> Vec<(String, VerifyError)> {
        let unable = self.iter().filter_map(|certificate| {
            let rule = certificate.check_as_signer(purpose, now).err()?;
            Some((certificate.shown_name(), rule))
        });
        unable.collect()
    }

    /// Whether the identical certificate is in the set.
    pub(super) fn contains(&self, certificate: &X509) -> bool {
        self.with_subject(&certificate.subject).any(|own| own.raw == certificate.raw)
    }

    /// Certificates that may have signed another, the most plausible first: key identifiers match, one of them is
    /// missing, they differ.
    pub(super) fn potential_signers(&self, certificate: &X509) -> Vec<&Arc<X509>> {
        let mut found: Vec<_> = self.with_subject(&certificate.issuer).collect();
        found.sort_by_key(|signer| {
            let (own, named) = (&signer.subject_key_id, &certificate.authority_key_id);
            match own == named {
                true => 0,
                false if own.is_empty() != named.is_empty() => 1,
                false => 2,
            }
        });
        found
    }

    fn with_subject(&self, subject: &[u8]) -> impl Iterator<Item = &Arc<X509>> {
        let places = self.by_subject.get(subject).map_or(&[][..], Vec::as_slice);
        places.iter().filter_map(|place| self.certificates.get(*place))
    }
}

/// Files of the system's CAs: the first readable one counts.
const SYSTEM_FILES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Charges of the compute budget for reading a certificate, some 50 µs.
const CERTIFICATE_CHARGES: usize = 500;
/// Folders of the system's CAs: all files of all folders count.
const SYSTEM_FOLDERS: &[&str] = &["/etc/ssl/certs", "/etc/pki/tls/certs"];

impl Roots {
    /// The system's CAs, read once. `SSL_CERT_FILE` and `SSL_CERT_DIR` override the paths, as for Go programs. Without
    /// system CAs no server is trusted.
    pub fn of_system() -> Arc<Roots> {
        static SYSTEM: OnceLock<Arc<Roots>> = OnceLock::new();
        kevel_compute::filled(&SYSTEM, || Arc::new(Roots::read_system())).clone()
    }

    fn read_system() -> Roots {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let owned = |list: &[&str]| list.iter().map(|&path| path.to_owned()).collect::<Vec<_>>();
        let files = set("SSL_CERT_FILE").map_or_else(|| owned(SYSTEM_FILES), |file| vec![file]);
        let folders = set("SSL_CERT_DIR").map_or_else(
            || owned(SYSTEM_FOLDERS),
            |folders| folders.split(':').map(str::to_owned).collect(),
        );
        let mut roots = Roots::default();
        if let Some(pem) = files.iter().find_map(|file| std::fs::read(file).ok()) {
            roots.add_pem(&pem);
        }
        let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        for entry in entries.flatten() {
            if let Ok(pem) = std::fs::read(entry.path()) {
                roots.add_pem(&pem);
            }
        }
        roots
    }

    /// Adds the valid certificates of a PEM text. Returns the first error about an invalid one.
    pub fn add_pem(&mut self, pem: &[u8]) -> Option<String> {
        let mut wrong = None;
        for der in pem_certificates(pem) {
            kevel_compute::charge(CERTIFICATE_CHARGES);
            match X509::parse(&der) {
                Ok(certificate) => self.add(certificate),
                Err(error) => {
                    wrong.get_or_insert(error.to_string());
                }
            }
        }
        wrong
    }
}
