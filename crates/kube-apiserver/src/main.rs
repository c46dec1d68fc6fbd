//! The API server's command.

use std::process::ExitCode;

fn main() -> ExitCode {
    kube_apiserver::command::main(std::env::args_os().skip(1))
}
