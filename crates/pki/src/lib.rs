//! X.509 certificates and keys: those that the server makes for itself, those that it reads from files, and those that
//! peers present.
//!
//! Without flags, [`Pki`] makes a certificate authority and the certificates that it signs, once. With the reference's
//! flags, the files are the user's, or the self-signed pair of [`self_signed`] in `--cert-dir`. Files are read again
//! when they change: [`Dynamic`].

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
