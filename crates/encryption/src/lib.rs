//! Encryption at rest, compatible with the reference's: on etcd, either server reads the other's values.
//!
//! ```text
//! EncryptionConfiguration ── read, checked ──▶ Transformers (swapped whole when the file changes)
//! engine ─▶ Encrypted ─▶ caches, decoders      key ─▶ resource ─▶ Providers: the first encrypts, all decrypt
//! ```
//!
//! [`Encrypted`] is an engine around an engine: it encrypts on writes and decrypts on reads, so that caches and
//! decoders see plain values. A server without encryption has no such engine, and no overhead.
//!
//! A value begins with its provider's prefix (`k8s:enc:aesgcm:v1:KEY:`), and its storage key is authenticated with it
//! if the cipher supports that: a value that is copied to another storage key cannot be decrypted.

pub mod config;
mod dynamic;
mod encrypted;
mod kms;
mod metrics;
mod resources;
mod transformer;

pub use dynamic::DynamicTransformers;
pub use encrypted::Encrypted;
pub use kms::Timing;
pub use metrics::EncryptionMetrics;
pub use resources::{Location, Options, Transformers};
pub use transformer::{Context, Providers, TransformError, Transformed};
