//! Table of `conformance/certificates`: certificate chains with the verdicts of Go's `crypto/x509`, and servers that
//! present the chains on real sockets.

mod cell;
mod presenter;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

pub use cell::{TrustCell, each};
pub use presenter::Presenter;

/// Verdict of a chain that is accepted.
const TRUSTED: &str = "trusted";

/// Row of the table.
#[derive(Clone, Debug)]
pub struct TrustRow {
    /// Name of the row, which describes its peculiarity.
    pub name: String,
    /// Trusted certificates (PEM).
    pub roots: String,
    /// Certificates that the peer sends, its own first (PEM).
    pub chain: String,
    /// Host name by which a server is addressed.
    pub host: String,
    /// Go's verdict on the chain of a server.
    pub server: Verdict,
    /// Go's verdict on the chain of a client.
    pub client: Verdict,
}

/// Verdict of Go: trusted, or the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict(Option<String>);

impl Verdict {
    fn new(text: &str) -> Self {
        Verdict((text != TRUSTED).then(|| text.to_owned()))
    }

    /// Whether the chain is accepted.
    pub fn is_trusted(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a message has the reason; its current time differs from Go's.
    pub fn is_told_by(&self, message: &str) -> bool {
        let reason = self.0.as_deref().unwrap_or_default();
        match reason.split_once("current time ") {
            Some((before, _)) => message.contains(before),
            None => message.contains(reason),
        }
    }
}

/// All rows, by name.
pub fn rows() -> Vec<TrustRow> {
    let verdicts = read("verdicts.txt");
    let verdict = |name: &str, kind: &str| {
        let start = format!("{name} {kind} ");
        let line = verdicts.lines().find_map(|line| line.strip_prefix(&start));
        Verdict::new(line.unwrap_or_else(|| panic!("no verdict of {name}")))
    };
    let files = std::fs::read_dir(folder().join("rows")).unwrap();
    let mut rows: Vec<_> = files
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let (head, rest) = text.split_once("# roots\n").unwrap();
            let (roots, chain) = rest.split_once("# chain\n").unwrap();
            TrustRow {
                roots: roots.to_owned(),
                chain: chain.to_owned(),
                host: head.split_once("# host: ").unwrap().1.trim().to_owned(),
                server: verdict(&name, "server"),
                client: verdict(&name, "client"),
                name,
            }
        })
        .collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// Private key of every row's own certificate (PEM).
pub fn leaf_key() -> String {
    read("leaf.key")
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/certificates"))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

impl TrustRow {
    /// Whether the row's host resolves to loopback.
    pub fn is_local(&self) -> bool {
        ["localhost", "127.0.0.1"].contains(&&*self.host)
    }

    /// Chain with its key, valid or not.
    pub fn certified_key(&self) -> Arc<CertifiedKey> {
        certified_key(&self.chain, &leaf_key())
    }
}

/// Certificates and the key of the first (PEM), valid or not.
pub fn certified_key(chain: &str, key: &str) -> Arc<CertifiedKey> {
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    Arc::new(CertifiedKey::new(chain, ring::sign::any_supported_type(&key).unwrap()))
}
