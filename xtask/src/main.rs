//! Chores: regenerate `api/`, convert objects between formats.

use std::process::ExitCode;

mod generate;

const USAGE: &str = "\
usage: cargo xtask generate [DATA]      regenerate api/ from DATA (default ../shared/kubernetes-1.36)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["generate"] => generate::run("../shared/kubernetes-1.36".as_ref()),
        ["generate", data] => generate::run(data.as_ref()),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
