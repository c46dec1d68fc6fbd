//! Looks after an embedded store: the `db` folder in a server's `--data-dir`.

use std::path::Path;
use std::process::ExitCode;

use kevel_store::embedded::{CheckReport, backup_directory, check, restore};

const USAGE: &str = "\
usage: kevel-store check DIR            read and verify everything in a store that no server has open
       kevel-store backup DIR FILE      copy a store to a new file; a server may have it open
       kevel-store restore FILE DIR     make a store out of a backup, in a new or empty directory
DIR is the db folder in a server's --data-dir.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let report = match arguments.as_slice() {
        ["check", directory] => check(Path::new(directory)),
        ["backup", directory, file] => backup_directory(Path::new(directory), Path::new(file)),
        ["restore", file, directory] => restore(Path::new(file), Path::new(directory)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match report {
        Ok(CheckReport { revision, compacted, keys, records }) => {
            println!("ok: revision {revision}, {keys} keys, {records} records since {compacted}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
