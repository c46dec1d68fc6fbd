//! The `kube-apiserver` command: flags become options, options are completed and validated, and
//! the server runs on them.

pub mod command;
pub mod flags;
pub mod help;
pub mod logging;
pub mod options;
pub mod server;
