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
//!
//! # Design
//!
//! - *Keys of the store name the resource.* The prefix of a storage key gives the resource; other keys (`ranges/`,
//!   `masterleases/`) stay plain. Each operation uses one set of `Transformers`; a changed file replaces the set once
//!   the KMS plug-ins that it names are healthy.
//! - *Staleness is checked at writes* (`Engine::is_stale`), not remembered: the cache may have read an object before
//!   its key became the second one. Only an update that changes nothing asks, and only with encryption does that read
//!   the store.
//! - *Undecryptable and unavailable differ.* A value that no configured key decrypts is damaged: it gives the
//!   transformer's error on a GET by name and is left out of lists (the reference fails the list). A value that a KMS
//!   plug-in cannot decrypt now is `Unavailable`: its resource is reloaded until it can be read, because a list without
//!   the object would look like a deletion. The shared watch waits a quarter of a second for a plug-in, then passes on.
//! - *KMS v2.* The plug-in encrypts one seed at start and whenever the key ID changes; each value's key is derived from
//!   it. Reads ask the plug-in once for each seed of other servers. Writes never ask it, and fail three minutes after
//!   the plug-in's last good status. Derived keys are not cached, as in the reference: deriving is cheaper than a
//!   look-up.
//! - *KMS v1* (`--feature-gates=KMSv1=true`, off by default as in the reference): the plug-in encrypts a new key with
//!   each write; `cachesize` decrypted keys are kept. Encrypting a value is therefore asynchronous.

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
