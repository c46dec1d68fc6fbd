//! Certificates of servers that a running server asks: for every use of such a server, each row of
//! `conformance/certificates` on a real socket, held against the verdict of Go's `crypto/x509`.

#![allow(clippy::unwrap_used)]

mod admission;
mod authorization;
mod conversion;
mod issuers;
mod webhook_files;

use std::path::Path;

use kevel_test_support::trust::{TrustRow, rows};
use serde_json::Value;

/// Expected number of certificate chains in the table, so that a lost one is noticed.
const ROWS: usize = 98;
/// Rows about hosts that loopback has: those of uses that dial the host of a URL.
const LOCAL_ROWS: usize = 89;

/// Rows about hosts that loopback has.
fn local_rows() -> impl Iterator<Item = TrustRow> {
    rows().into_iter().filter(TrustRow::is_local)
}

/// A review with the status or response that its version asks for.
fn reviewed(body: &[u8], field: &str, answer: Value) -> String {
    let mut review: Value = serde_json::from_slice(body).unwrap();
    review[field] = answer;
    if let Some(uid) = review["request"].get("uid").cloned() {
        review[field]["uid"] = uid;
    }
    review.to_string()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}
