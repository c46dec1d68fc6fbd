//! `etcd` of Kevel's envtest assets: see the library.

use std::io::Write as _;
use std::process::ExitCode;

use kevel_envtest_etcd::flags::{StandInCommand, help, parse};
use kevel_envtest_etcd::{ETCD_VERSION, serve};

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    let error = match parse(arguments) {
        Ok(StandInCommand::Help) => return print(&help()),
        Ok(StandInCommand::Version) => {
            return print(&format!(
                "etcd Version: {ETCD_VERSION}\nKevel's stand-in for controller tests\n"
            ));
        }
        Ok(StandInCommand::Serve(options)) => match serve(&options) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    eprintln!("kevel-etcd: {error}");
    ExitCode::FAILURE
}

/// A reader that closes the pipe has read enough.
fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
