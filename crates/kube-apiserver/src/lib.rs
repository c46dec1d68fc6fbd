//! The `kube-apiserver` command: flags become options, options are completed and validated, and
//! the server runs on them. `kube-apiserver store` looks after a store without a server, `kube-apiserver check` checks
//! manifests without a cluster.

pub mod check;
pub mod command;
pub mod flags;
pub mod help;
pub mod log_runner;
pub mod logging;
mod nearest;
pub mod options;
pub mod server;
pub mod store;
