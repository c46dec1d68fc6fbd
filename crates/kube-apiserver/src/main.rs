//! The API server's command.

use std::process::ExitCode;

/// mimalloc suits requests: small objects of all sizes, allocated by one thread and freed by another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    if kube_apiserver::log_runner::is_called(&program) {
        return kube_apiserver::log_runner::main(arguments);
    }
    let code = kube_apiserver::command::main(arguments);
    kube_apiserver::logging::flush();
    code
}
