//! Maintenance command for an embedded store: the `db` folder in a server's `--data-dir`.

mod arguments;

use std::path::Path;
use std::process::ExitCode;

use kevel_store::cache::{Decode as _, JsonDecode, KeyOrder};
use kevel_store::embedded::{
    CheckReport, backup_directory, check_values, defragment, drop_damaged, restore,
};
use kevel_store::migrate::{self, Migrated};
use kevel_store::{Damaged, Entry, Error, etcd};

use self::arguments::Arguments;

const USAGE: &str = "\
usage: kevel-store check [--drop] DIR          read and verify everything in a store that no server has open; with
                                               --drop, drop the objects that cannot be read
       kevel-store backup DIR FILE             copy a store to a new file; a server may have it open
       kevel-store restore [--drop] FILE DIR   make a store out of a backup, in a new or empty directory; with
                                               --drop, without the objects that cannot be read
       kevel-store defragment DIR              give freed space of a store that no server has open back to the disk
       kevel-store export DIR ETCD             copy a store that no server has open into an empty etcd
       kevel-store import DIR ETCD             make a store out of an etcd that no server writes to, in a new or
                                               empty directory
DIR is the db folder in a server's --data-dir. What is dropped is gone: make a backup before.
ETCD is --etcd-servers=URLS, and where needed --etcd-prefix=/registry, --etcd-cafile=FILE, --etcd-certfile=FILE and
--etcd-keyfile=FILE, as the server has them.";

/// Prefix of encrypted values. Only a server with the encryption configuration can tell whether they can be decrypted.
const ENCRYPTED: &[u8] = b"k8s:enc:";
/// Prefix of values that the reference stores as Protobuf; an import brings them.
const PROTOBUF: &[u8] = b"k8s\0";

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command. An error is about the arguments.
fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let drop = arguments.drop;
    let (verb, one, other) = match &arguments.words[..] {
        [verb, one] => (verb.as_str(), Path::new(one), None),
        [verb, one, other] => (verb.as_str(), Path::new(one), Some(Path::new(other))),
        _ => return Err(String::new()),
    };
    Ok(match (verb, other) {
        ("check", None) if drop => say(drop_damaged(one, &is_object), "dropped"),
        ("check", None) => say(check_values(one, &is_object), "damaged"),
        ("backup", Some(file)) if !drop => say(backup_directory(one, file), "damaged"),
        ("restore", Some(directory)) if drop => say(restore(one, directory, true), "dropped"),
        ("restore", Some(directory)) => say(restore(one, directory, false), "damaged"),
        ("defragment", None) if !drop => match defragment(one) {
            Ok(size) => {
                println!("ok: {size} bytes");
                ExitCode::SUCCESS
            }
            Err(error) => failed(&error),
        },
        ("export" | "import", None) if !drop => migrated(verb, one, arguments.etcd()?),
        _ => return Err(String::new()),
    })
}

/// Prints the result of a check; exits with failure if damage is left.
fn say(report: Result<CheckReport, Error>, said: &str) -> ExitCode {
    let CheckReport { revision, compacted, keys, records, damaged } = match report {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    for Damaged { key, revision, why, .. } in &damaged {
        eprintln!("{said}: {} (revision {revision}): {why}", String::from_utf8_lossy(key));
    }
    let found = format!("revision {revision}, {keys} keys, {records} records since {compacted}");
    match (damaged.len(), said) {
        (0, _) => println!("ok: {found}"),
        (count, "dropped") => println!("dropped {count}: {found}"),
        (count, _) => {
            println!("{count} damaged: {found}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Migrates between an embedded store and etcd, and prints the number of keys.
fn migrated(verb: &str, directory: &Path, etcd: etcd::Options) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&Error::Unavailable(error.to_string())),
    };
    let say = |text: String| eprintln!("{text}");
    let done = runtime.block_on(async {
        match verb {
            "export" => migrate::export(directory, etcd, &say).await,
            _ => migrate::import(etcd, directory, &say).await,
        }
    });
    match done {
        Ok(Migrated { keys, from, to }) => {
            println!("ok: {keys} keys of revision {from}, now at revision {to}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

/// Whether a server could decode a value, as far as can be told without the encryption configuration.
fn is_object(entry: &Entry) -> Result<(), String> {
    if entry.value.starts_with(ENCRYPTED) || entry.value.starts_with(PROTOBUF) {
        return Ok(());
    }
    let decode = JsonDecode { order: KeyOrder::Struct };
    decode.decode(&entry.value, entry.mod_revision).map(|_| ())
}
