//! Control planes of the reference and of Kevel, with the real components around them, and comparisons between them.
//! See `conformance/README.md`.

pub mod client;
pub mod command;
pub mod control_plane;
pub mod credentials;
pub mod diff;
pub mod difference;
pub mod e2e;
pub mod flags;
pub mod graphs;
pub mod hooks;
pub mod integration;
pub mod kms;
pub mod kubelet;
pub mod mask;
pub mod matrix;
pub mod metrics;
pub mod namespaces;
pub mod node;
pub mod objects;
pub mod peers;
pub mod process;
pub mod random;
pub mod rolling;
pub mod rules;
pub mod scenario;
pub mod services;
pub mod store;
pub mod stored;
pub mod swap;

/// Error that ends the command; no caller distinguishes errors.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
