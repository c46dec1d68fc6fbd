//! Embedded store on a failing disk, by a shim between the store's process and the C library (`faults/shim.c`), since
//! this project has no unsafe code.

pub mod driver;
mod image;
mod positions;
mod power;
mod verify;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub use positions::positions;
pub use power::power;

/// Source of the shim, embedded so that the program runs anywhere.
const SHIM: &str = include_str!("../../faults/shim.c");

/// Command that runs the driver process.
pub const DRIVER: &str = "driver";

/// Temporary folder, in memory, as the disk is simulated anyway.
fn folder() -> Result<tempfile::TempDir, String> {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let made = tempfile::Builder::new().prefix("kevel-disk").tempdir_in(base);
    made.map_err(|error| error.to_string())
}

/// Compiles the shim; `None` without a C compiler, which is reported.
pub fn shim(folder: &Path) -> Result<Option<PathBuf>, String> {
    if kevel_test_support::program("cc").is_none() {
        return Ok(None);
    }
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    std::fs::write(&source, SHIM).map_err(|error| error.to_string())?;
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-lpthread");
    let compiled = compile.output().map_err(|error| error.to_string())?;
    match compiled.status.success() {
        true => Ok(Some(library)),
        false => Err(String::from_utf8_lossy(&compiled.stderr).into_owned()),
    }
}

/// Runs the driver on a folder with the shim, and waits for its end.
fn drive(
    shim: &Path,
    folder: &Path,
    writes: usize,
    size: usize,
    variables: &[(&str, String)],
) -> Result<Output, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command.arg(DRIVER).arg(folder).arg(writes.to_string()).arg(size.to_string());
    command.env("LD_PRELOAD", shim).env("KEVEL_SHIM_DIR", folder);
    for (name, value) in variables {
        command.env(name, value);
    }
    command.output().map_err(|error| error.to_string())
}
