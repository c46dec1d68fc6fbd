//! Test that certificates are trusted only by `kevel_pki::verify`: no other code in the server makes that decision.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::fs;
use std::path::{Path, PathBuf};

/// Ways to trust a certificate other than `kevel_pki::verify`.
const FORBIDDEN: &[&str] = &[
    "RootCertStore",
    "WebPkiServerVerifier",
    "WebPkiClientVerifier",
    "with_root_certificates",
    "with_native_roots",
    "with_webpki_roots",
    "with_platform_verifier",
    "anchor_from_trusted_cert",
    "verify_for_usage",
    "impl ServerCertVerifier",
    ".ca_certificate(",
];

/// The only files that set a certificate verifier: for the server's clients, and for etcd's client.
const CLIENTS: &[(&str, &str)] = &[
    ("with_custom_certificate_verifier", "server/src/webhook/tls.rs"),
    ("tls_config_with_verifier", "store/src/etcd/client.rs"),
];

#[test]
fn certificates_are_trusted_by_one_verifier_alone() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    for name in fs::read_dir(&crates).unwrap().map(|entry| entry.unwrap().file_name()) {
        // Tests may trust any certificate.
        if name != "pki" && name != "test-support" {
            collect(&crates.join(name).join("src"), &mut sources);
        }
    }
    assert!(sources.len() > 500, "the sources were found");
    let mut wrong = Vec::new();
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let place = source.strip_prefix(&crates).unwrap().display().to_string();
        let found = FORBIDDEN.iter().filter(|word| code.contains(**word));
        let clients = CLIENTS.iter().filter(|(word, at)| code.contains(word) && place != *at);
        let found = found.copied().chain(clients.map(|(word, _)| *word));
        wrong.extend(found.map(|word| format!("{place}: {word}")));
    }
    assert!(wrong.is_empty(), "use kevel_pki::verify instead of\n{}", wrong.join("\n"));
}

fn collect(folder: &Path, sources: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => collect(&path, sources),
            false => sources.extend(path.extension().is_some_and(|e| e == "rs").then_some(path)),
        }
    }
}
