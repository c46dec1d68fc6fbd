//! `kube-apiserver check`: manifests, and what is said about them.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

mod cases;
mod formats;
mod input;
mod planted;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// Result of a run of the command.
#[derive(Debug)]
pub struct Checked {
    /// Exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs the command with a text on its standard input.
pub fn check(arguments: &[&str], input: &[u8]) -> Checked {
    let program = env!("CARGO_BIN_EXE_kube-apiserver");
    let mut command = Command::new(program);
    command.arg("check").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that refuses its arguments does not read.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Checked { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}
