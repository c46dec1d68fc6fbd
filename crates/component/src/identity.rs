//! Identity of a server among the API servers of a cluster.

use ring::digest::{SHA256, digest};

/// ID of the API server on a host. Aggregated API servers on the same host have other IDs.
///
/// ```
/// let id = kevel_component::identity::server_id("host");
/// assert_eq!(id, "apiserver-dd6egxogzxmivwqge6rcnj6rwi");
/// ```
pub fn server_id(hostname: &str) -> String {
    let mut text = Vec::new();
    for part in [hostname, "kube-apiserver"] {
        let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
        text.extend(length.to_be_bytes());
        text.extend(part.as_bytes());
    }
    let hash = digest(&SHA256, &text);
    format!("apiserver-{}", base32(hash.as_ref().get(..16).unwrap_or_default()))
}

/// Base32 of RFC 4648 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let digits = (bytes.len() * 8).div_ceil(5);
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    let digit = |at: usize| (0..5).fold(0, |digit, next| digit << 1 | bit(at * 5 + next));
    (0..digits).map(|at| char::from(ALPHABET[usize::from(digit(at))])).collect()
}
