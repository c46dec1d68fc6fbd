//! `kube-apiserver store`: maintenance of an embedded store, the `db` folder in a server's `--data-dir`.

mod arguments;
mod progress;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use kevel_store::cache::{Decode as _, JsonDecode, KeyOrder};
use kevel_store::embedded::{
    CheckReport, backup_directory, check_values, defragment, drop_damaged, restore,
};
use kevel_store::migrate::{self, Migrated};
use kevel_store::{Damaged, Entry, Error, Report, etcd};

use self::arguments::{StoreArguments, UsageError};
use self::progress::ProgressPrinter;
use crate::nearest::nearest;

const USAGE: &str = "\
Usage:
  kube-apiserver store check [--drop] DIR          read and verify everything in a store that no server has open; with
                                                   --drop, drop the objects that cannot be read
  kube-apiserver store backup DIR FILE             copy a store to a new file; a server may have it open
  kube-apiserver store restore [--drop] FILE DIR   make a store out of a backup, in a new or empty directory; with
                                                   --drop, without the objects that cannot be read
  kube-apiserver store defragment DIR              give freed space of a store that no server has open back to the disk
  kube-apiserver store export DIR ETCD             copy a store that no server has open into an empty etcd
  kube-apiserver store import DIR ETCD             make a store out of an etcd that no server writes to, in a new or
                                                   empty directory

DIR is the db folder in a server's --data-dir. What is dropped is gone: make a backup before.
ETCD is --etcd-servers=URLS, and where needed --etcd-prefix=/registry, --etcd-cafile=FILE, --etcd-certfile=FILE and
--etcd-keyfile=FILE, as the server has them.

Exits with 0 if all is well, 1 if not, and 2 if the arguments are wrong.
";

const VERBS: [&str; 6] = ["check", "backup", "restore", "defragment", "export", "import"];

/// Exit code for wrong arguments.
const WRONG_ARGUMENTS: u8 = 2;

/// Prefix of encrypted values. Only a server with the encryption configuration can tell whether they can be decrypted.
const ENCRYPTED: &[u8] = b"k8s:enc:";
/// Prefix of values that the reference stores as Protobuf; an import brings them.
const PROTOBUF: &[u8] = b"k8s\0";

/// Runs the command on the arguments after `store`.
pub fn main(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let parsed = match StoreArguments::parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error),
    };
    if parsed.help {
        // A reader that closes the pipe has read enough.
        let _ = io::stdout().write_all(USAGE.as_bytes());
        return ExitCode::SUCCESS;
    }
    if parsed.words.is_empty() {
        eprint!("{USAGE}");
        return ExitCode::from(WRONG_ARGUMENTS);
    }
    run(&parsed).unwrap_or_else(|error| refuse(&error))
}

fn refuse(error: &UsageError) -> ExitCode {
    eprintln!("Error: {error}\nSee `kube-apiserver store --help`.");
    ExitCode::from(WRONG_ARGUMENTS)
}

fn run(arguments: &StoreArguments) -> Result<ExitCode, UsageError> {
    let drop = arguments.drop;
    let verb = arguments.words.first().map_or("", String::as_str);
    if !VERBS.contains(&verb) {
        return Err(UsageError::UnknownVerb(verb.to_owned(), nearest(verb, VERBS)));
    }
    let operands: Vec<&Path> = arguments.words.iter().skip(1).map(Path::new).collect();
    let printer = ProgressPrinter::new();
    let report: Report<'_> = &|progress| printer.report(&progress);
    let done = match (verb, &operands[..]) {
        ("check", [folder]) if drop => {
            checked(&printer, drop_damaged(folder, &is_object, report), "dropped")
        }
        ("check", [folder]) => {
            checked(&printer, check_values(folder, &is_object, report), "damaged")
        }
        ("backup", [folder, file]) if !drop => {
            checked(&printer, backup_directory(folder, file, report), "damaged")
        }
        ("restore", [file, folder]) => {
            let said = if drop { "dropped" } else { "damaged" };
            checked(&printer, restore(file, folder, drop, report), said)
        }
        ("defragment", [folder]) if !drop => {
            defragment(folder).map(|size| println!("ok: {size} bytes")).map(|()| ExitCode::SUCCESS)
        }
        ("export" | "import", [folder]) if !drop => {
            migrated(verb, folder, arguments.etcd()?, &printer)
        }
        _ => return Err(UsageError::Operands(verb.to_owned())),
    };
    printer.finish();
    Ok(done.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    }))
}

/// Prints the result of a check; fails if damage is left.
fn checked(
    printer: &ProgressPrinter,
    report: Result<CheckReport, Error>,
    said: &str,
) -> Result<ExitCode, Error> {
    printer.finish();
    let CheckReport { revision, compacted, keys, records, damaged } = report?;
    for Damaged { key, revision, why, .. } in &damaged {
        eprintln!("{said}: {} (revision {revision}): {why}", String::from_utf8_lossy(key));
    }
    let found = format!("revision {revision}, {keys} keys, {records} records since {compacted}");
    match (damaged.len(), said) {
        (0, _) => println!("ok: {found}"),
        (count, "dropped") => println!("dropped {count}: {found}"),
        (count, _) => {
            println!("{count} damaged: {found}");
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Migrates between an embedded store and etcd, and prints the number of keys.
fn migrated(
    verb: &str,
    folder: &Path,
    etcd: etcd::Options,
    printer: &ProgressPrinter,
) -> Result<ExitCode, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Unavailable(error.to_string()))?;
    let report: Report<'_> = &|progress| printer.report(&progress);
    let done = runtime.block_on(async {
        match verb {
            "export" => migrate::export(folder, etcd, report).await,
            _ => migrate::import(etcd, folder, report).await,
        }
    });
    printer.finish();
    let Migrated { keys, from, to } = done?;
    println!("ok: {keys} keys of revision {from}, now at revision {to}");
    Ok(ExitCode::SUCCESS)
}

/// Whether a server could decode a value, as far as can be told without the encryption configuration.
fn is_object(entry: &Entry) -> Result<(), String> {
    if entry.value.starts_with(ENCRYPTED) || entry.value.starts_with(PROTOBUF) {
        return Ok(());
    }
    let decode = JsonDecode { order: KeyOrder::Struct };
    decode.decode(&entry.value, entry.mod_revision).map(|_| ())
}
