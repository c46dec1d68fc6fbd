//! `kube-apiserver store`.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

mod arguments;
mod maintenance;
mod migration;
mod progress;

use std::process::Command;

/// `kube-apiserver store VERB`.
fn command(verb: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"));
    command.args(["store", verb]);
    command
}
