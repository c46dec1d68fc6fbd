//! Encryption at rest, as the reference does it: on etcd, either server reads what the other wrote.
//!
//! ```text
//! EncryptionConfiguration ── read, checked ──▶ Transformers (swapped whole when the file changes)
//! engine ─▶ Encrypted ─▶ everybody else        key ─▶ resource ─▶ Providers: the first writes, all read
//! ```
//!
//! [`Encrypted`] is an engine around an engine: values are encrypted on their way in and decrypted on
//! their way out, so that caches and decoders see plain ones and know nothing of it. A server that
//! encrypts nothing has no such engine, and pays nothing.
//!
//! A value begins with what it was encrypted by (`k8s:enc:aesgcm:v1:KEY:`), and its whole key is bound
//! to it where the cipher can do that: who copies a value to another key makes it unreadable.

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
