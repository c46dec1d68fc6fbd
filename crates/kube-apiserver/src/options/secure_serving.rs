//! Flags of the HTTPS port.

use crate::flags::{EFFECTIVE, Int32Slice, MOOT, NamedCertKeys, Strings, section};
use std::net::IpAddr;

section! {
    /// Options of the HTTPS port.
    SecureServing, "secure serving" {
        /// IP address to listen on. Unspecified (0.0.0.0 or ::) listens on all interfaces, in both
        /// address families.
        bind_address: Option<IpAddr> = "0.0.0.0", EFFECTIVE;
        /// Directory of the serving certificate and its key, apiserver.crt and apiserver.key; they
        /// are made there if they are missing. Not used with --tls-cert-file. Without the flag and
        /// without etcd it is the pki folder in --data-dir.
        cert_dir: String = "/var/run/kubernetes", EFFECTIVE;
        /// Do not speak HTTP/2.
        disable_http2_serving: bool = "false", EFFECTIVE;
        /// Number of requests that a client may have open on one HTTP/2 connection; 0 is the server's own choice.
        http2_max_streams_per_connection: i64 = "0", EFFECTIVE;
        /// Listen with SO_REUSEADDR: a port can be taken again at once, while connections of an
        /// earlier server still end. It is always set.
        permit_address_sharing: bool = "false", MOOT;
        /// Listen with SO_REUSEPORT: several servers can share the address and port.
        permit_port_sharing: bool = "false", EFFECTIVE;
        /// Port for HTTPS, from 1 to 65535. It cannot be turned off.
        secure_port: i64 = "6443", EFFECTIVE;
        /// File with the serving certificate, and those of the authorities above it. Without it, a
        /// certificate is made in --cert-dir.
        tls_cert_file: String, EFFECTIVE;
        /// Names of the cipher suites to offer for TLS 1.2, comma separated. Those of TLS 1.3 are
        /// always on.
        tls_cipher_suites: Strings, EFFECTIVE;
        /// Numbers of the key exchange groups to offer, comma separated: 23 (P-256), 24 (P-384), 29
        /// (X25519), 4588 (X25519MLKEM768) and others of the TLS registry.
        tls_curve_preferences: Int32Slice, EFFECTIVE;
        /// Lowest version of TLS: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13.
        /// Versions below 1.2 are never spoken.
        tls_min_version: String, EFFECTIVE;
        /// File with the private key of --tls-cert-file.
        tls_private_key_file: String, EFFECTIVE;
        /// A further certificate for clients that ask for certain names, as cert,key or
        /// cert,key:name,name; may be repeated. A name may begin with '*.'. Without names, those in
        /// the certificate count. Exact names go before wildcards, given names before those of
        /// the certificate.
        tls_sni_cert_key: NamedCertKeys, EFFECTIVE;
    }
}

impl SecureServing {
    /// Validation errors of these options alone.
    pub(super) fn validate(&self) -> Vec<String> {
        let mut errors = Vec::new();
        let port = self.secure_port;
        if !(1..=65535).contains(&port) {
            errors.push(format!(
                "--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned \
                 off with 0"
            ));
        }
        let suites = self.tls_cipher_suites.iter();
        errors.extend(
            suites
                .filter(|name| cipher_suite(name).is_none())
                .map(|name| format!("Cipher suite {name} not supported or doesn't exist")),
        );
        errors.extend(curve_error(&self.tls_curve_preferences));
        if !matches!(
            self.tls_min_version.as_str(),
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" | "VersionTLS13"
        ) {
            errors.push(format!("unknown tls version {:?}", self.tls_min_version));
        }
        errors
    }
}

/// Whether a cipher suite can be spoken; `None` if the reference does not know it either.
///
/// Suites without forward secrecy or authenticated encryption are known by name only: a manifest
/// that lists them is read, and they are not offered.
pub fn cipher_suite(name: &str) -> Option<bool> {
    CIPHER_SUITES.iter().find(|(known, _)| *known == name).map(|&(_, spoken)| spoken)
}

const CIPHER_SUITES: [(&str, bool); 27] = [
    ("TLS_AES_128_GCM_SHA256", true),
    ("TLS_AES_256_GCM_SHA384", true),
    ("TLS_CHACHA20_POLY1305_SHA256", true),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", false),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", false),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", true),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", false),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", true),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", true),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", true),
    ("TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", false),
    ("TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", false),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", false),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", false),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", true),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", false),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", true),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", true),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", true),
    ("TLS_ECDHE_RSA_WITH_RC4_128_SHA", false),
    ("TLS_RSA_WITH_3DES_EDE_CBC_SHA", false),
    ("TLS_RSA_WITH_AES_128_CBC_SHA", false),
    ("TLS_RSA_WITH_AES_128_CBC_SHA256", false),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", false),
    ("TLS_RSA_WITH_AES_256_CBC_SHA", false),
    ("TLS_RSA_WITH_AES_256_GCM_SHA384", false),
    ("TLS_RSA_WITH_RC4_128_SHA", false),
];

/// The key exchange groups that the reference knows, by their numbers in the TLS registry.
const CURVES: [i32; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

fn curve_error(curves: &[i32]) -> Option<String> {
    curves.iter().enumerate().find_map(|(index, curve)| {
        if !(1..=0xffff).contains(curve) {
            Some(format!("curve preference {curve} is out of range (must be 1-65535)"))
        } else if curves.iter().take(index).any(|earlier| earlier == curve) {
            Some(format!("duplicate curve preference {curve}"))
        } else if !CURVES.contains(curve) {
            Some(format!("curve preference {curve} is not supported"))
        } else {
            None
        }
    })
}
