//! The API server's command.

use std::process::ExitCode;

/// Small objects of all sizes, made by one thread and freed by another, are what a request is made of.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kube_apiserver::command::main(std::env::args_os().skip(1))
}
