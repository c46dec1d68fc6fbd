//! `conformance`: see `conformance/README.md`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match kevel_conformance::command::run(std::env::args().skip(1).collect()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}
