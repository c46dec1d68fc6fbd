//! Looks after an embedded store: the `db` folder in a server's `--data-dir`.

use std::path::Path;
use std::process::ExitCode;

use kevel_store::cache::{Decode as _, JsonDecode, KeyOrder};
use kevel_store::embedded::{CheckReport, backup_directory, check_values, drop_damaged, restore};
use kevel_store::{Damaged, Entry};

const USAGE: &str = "\
usage: kevel-store check DIR            read and verify everything in a store that no server has open
       kevel-store check --drop DIR     the same, and drop the objects that cannot be read
       kevel-store backup DIR FILE      copy a store to a new file; a server may have it open
       kevel-store restore FILE DIR     make a store out of a backup, in a new or empty directory
DIR is the db folder in a server's --data-dir. What is dropped is gone: make a backup before.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (report, dropped) = match arguments.as_slice() {
        ["check", "--drop", directory] | ["check", directory, "--drop"] => {
            (drop_damaged(Path::new(directory), &is_object), true)
        }
        ["check", directory] => (check_values(Path::new(directory), &is_object), false),
        ["backup", directory, file] => {
            (backup_directory(Path::new(directory), Path::new(file)), false)
        }
        ["restore", file, directory] => (restore(Path::new(file), Path::new(directory)), false),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match report {
        Ok(report) => say(&report, dropped),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Says what was found; a failure if it is still there.
fn say(report: &CheckReport, dropped: bool) -> ExitCode {
    let CheckReport { revision, compacted, keys, records, damaged } = report;
    for Damaged { key, revision, why, .. } in damaged {
        let said = if dropped { "dropped" } else { "damaged" };
        eprintln!("{said}: {} (revision {revision}): {why}", String::from_utf8_lossy(key));
    }
    let found = format!("revision {revision}, {keys} keys, {records} records since {compacted}");
    match (damaged.len(), dropped) {
        (0, _) => println!("ok: {found}"),
        (count, true) => println!("dropped {count}: {found}"),
        (count, false) => {
            println!("{count} damaged: {found}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Whether a server could read a value: the embedded store holds objects as JSON.
fn is_object(entry: &Entry) -> Result<(), String> {
    let decode = JsonDecode { order: KeyOrder::Struct };
    decode.decode(&entry.value, entry.mod_revision).map(|_| ())
}
