//! Warnings about CA bundles with certificates that cannot sign.

use std::fmt::Display;

use kevel_clock::Clock;

use super::verify::{Purpose, Roots};

/// Maximum number of certificates that are logged: a bundle may have thousands.
const MAX_NAMED: usize = 8;

/// Logs the certificates of CA bundles (PEM) whose signatures do not count now: expired, not a CA, or not allowed to
/// sign. `source` names the file or object that holds the bundles. Called when bundles are loaded, not when they are
/// used, so that the log grows with changes and not with requests. A peer that presents such a certificate as its own
/// is still trusted.
pub fn warn_unable_to_sign(
    source: impl Display,
    purpose: Purpose,
    bundles: impl IntoIterator<Item = impl AsRef<[u8]>>,
) {
    let mut roots = Roots::default();
    for bundle in bundles {
        // An unreadable bundle is reported where it is used.
        let _ = roots.add_pem(bundle.as_ref());
    }
    // Handshakes use the system's time, too.
    let unable = roots.unable_to_sign(purpose, Clock::system().now());
    for (subject, rule) in unable.iter().take(MAX_NAMED) {
        tracing::warn!(
            bundle = %source,
            subject,
            %rule,
            "A certificate of the bundle cannot sign others: what it has signed is refused"
        );
    }
    if let Some(more @ 1..) = unable.len().checked_sub(MAX_NAMED) {
        tracing::warn!(bundle = %source, more, "More certificates of the bundle cannot sign others");
    }
}
