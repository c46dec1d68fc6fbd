//! X.509 certificates and keys: those that the server makes for itself, those that it reads from files, and those that
//! peers present.
//!
//! Without flags, [`Pki`] makes a certificate authority and the certificates that it signs, once. With the reference's
//! flags, the files are the user's, or the self-signed pair of [`self_signed`] in `--cert-dir`. Files are read again
//! when they change: [`Dynamic`].
//!
//! # Verification
//!
//! ```text
//! --client-ca-file, --requestheader-client-ca-file ─ CaBundle ─ ClientVerifier ─┐
//! webhooks, issuers, APIServices, kubelets, peers, egress proxies ─ tls_config ─┼─▶ verify::Verifier { roots } ─▶ rules
//! etcd ─ ServerVerifier ────────────────────────────────────────────────────────┘
//! ```
//!
//! - One verifier decides ([`verify`]), by the rules of Go's `crypto/x509`: an anchor must be an authority that may
//!   sign, be valid now and permit the purpose; a certificate that is itself in the bundle needs no signer. Each rule
//!   is a function in a table (`verify/rules.rs`). `conformance/certificates` has 98 chains with Go's verdicts and
//!   messages; a test disables each rule and sees verdicts change, and `tests/one_verifier.rs` refuses any other way to
//!   trust a certificate.
//! - `rustls-webpki` cannot give these verdicts: it keeps only an anchor's name, key and name constraints, refuses
//!   version 1 and authorities as end entities, and ignores key usage. It is used for the signatures of handshakes
//!   only.
//! - X.509 is parsed by this crate (`certificate.rs`, `strict.rs`, `verify/extensions.rs`), not by `x509-cert`.
//!   Measured with 0.2.5 on the 291 certificates of the table, which both accept, and 16,503 copies with one byte
//!   changed, of which Go accepts 6,855: `x509-cert` refuses 178 that Go accepts and accepts 4,765 that Go refuses;
//!   this parser 32 and 2,993, most of these probably keys that are not on their curve, which verify nothing.
//! - TLS features of the reference that `rustls` with `ring` lacks: cipher suites with RSA key exchange, CBC, RC4 or
//!   3DES (`--tls-cipher-suites`), P-521 and X25519MLKEM768 (`--tls-curve-preferences`), versions below 1.2. A flag
//!   with only such values stops the start; otherwise the log names the missing ones.
//! - Signatures that Go accepts and `ring` lacks: RSA keys below 2048 bits with SHA-384 or PSS, ECDSA with SHA-512 on
//!   P-256 and P-384, P-224. Such certificates are refused (`algorithm unimplemented`).
//! - A bundle whose certificates cannot sign is logged when it is loaded, once per change (`warn_unable_to_sign`).
//!   Expired or soon expiring certificates of flags are logged at start, and
//!   `kevel_certificate_expiration_timestamp_seconds` shows all. A lost certificate authority or token key is not made
//!   again over a store that is in use.

mod asn1;
mod authority;
mod bundle_warnings;
mod ca_bundle;
mod certificate;
mod certificate_request;
mod certificate_signer;
mod client;
pub mod der;
mod dynamic;
mod files;
pub mod handshake;
mod key_pair;
mod kubeconfig;
mod pem_block;
mod pki;
pub mod private;
mod public_key;
mod self_signed;
mod service_account_key;
mod strict;
mod usages;
pub mod verify;

pub use authority::{Authority, Issued, Subject};
pub use bundle_warnings::warn_unable_to_sign;
pub use ca_bundle::CaBundle;
pub use certificate::{AltNames, Certificate, Name};
pub use certificate_request::{CertificateRequest, requested_subject};
pub use certificate_signer::{CertificateSigner, SignError};
pub use client::{ClientIdentity, ClientVerifier, verify_client};
pub use dynamic::Dynamic;
pub use files::{pem, pem_certificates};
pub use key_pair::certified_key;
pub use kubeconfig::kubeconfig;
pub use pem_block::PemBlock;
pub use pki::{Pki, PkiFiles};
pub use public_key::{Hash, KeyKind, PublicKey, SignatureAlgorithm};
pub use self_signed::self_signed;
pub use usages::UnknownUsages;
