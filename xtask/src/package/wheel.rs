//! Python wheels, one for each architecture.

use kevel_codec::base64;

use super::archive::{ArchiveEntry, FILE, PROGRAM, zip};
use super::inputs::{Inputs, VERSION};
use super::program::ProgramFile;
use super::{PackageError, PackageFile, sha256_bytes};

/// The name as it is in names of files.
const NAME: &str = "kevel_apiserver";
/// Files of the module.
const MODULE: [&str; 4] = ["__init__.py", "__main__.py", "pytest_plugin.py", "py.typed"];

pub fn make(inputs: &Inputs) -> Result<Vec<PackageFile>, PackageError> {
    inputs.programs.iter().map(|program| wheel(inputs, program)).collect()
}

fn wheel(inputs: &Inputs, program: &ProgramFile) -> Result<PackageFile, PackageError> {
    let platforms = platforms(program);
    let info = |name: &str| format!("{NAME}-{VERSION}.dist-info/{name}");
    let mut entries = Vec::new();
    for name in MODULE {
        let file = inputs.file(&format!("python/{NAME}/{name}"))?;
        entries.push(ArchiveEntry::file(format!("{NAME}/{name}"), FILE, file));
    }
    let path = format!("{NAME}/bin/kube-apiserver");
    entries.push(ArchiveEntry::file(path, PROGRAM, program.bytes.clone()));
    let readme = inputs.text("python/README.md", &[])?;
    let metadata = format!("{}\n{readme}", inputs.text("python/METADATA", &[])?);
    entries.push(ArchiveEntry::file(info("METADATA"), FILE, metadata));
    entries.push(ArchiveEntry::file(info("WHEEL"), FILE, about(&platforms)));
    let points = inputs.file("python/entry_points.txt")?;
    entries.push(ArchiveEntry::file(info("entry_points.txt"), FILE, points));
    entries.push(ArchiveEntry::file(info("licenses/LICENSE"), FILE, inputs.license.clone()));
    entries.push(ArchiveEntry::file(
        info("licenses/THIRD-PARTY.txt"),
        FILE,
        inputs.third_party.clone(),
    ));
    let record = record(&entries, &info("RECORD"));
    entries.push(ArchiveEntry::file(info("RECORD"), FILE, record));
    let bytes = zip(&entries, &inputs.time)?;
    Ok(PackageFile {
        name: format!("{NAME}-{VERSION}-py3-none-{}.whl", platforms.join(".")),
        bytes,
    })
}

/// Tags of the platforms. A static program runs with any libc; one that is not, where it was built.
fn platforms(program: &ProgramFile) -> Vec<String> {
    let architecture = program.architecture.name;
    let systems: &[&str] = if program.is_static {
        &["manylinux_2_17", "manylinux2014", "musllinux_1_1"]
    } else {
        &["linux"]
    };
    systems.iter().map(|system| format!("{system}_{architecture}")).collect()
}

fn about(platforms: &[String]) -> String {
    let mut text = format!("Wheel-Version: 1.0\nGenerator: kevel xtask {VERSION}\n");
    text.push_str("Root-Is-Purelib: false\n");
    for platform in platforms {
        text.push_str(&format!("Tag: py3-none-{platform}\n"));
    }
    text
}

/// The list of all files with their checksums, itself without one.
fn record(entries: &[ArchiveEntry], own: &str) -> String {
    let line = |entry: &ArchiveEntry| {
        let sum = base64::encode_url(&sha256_bytes(entry.bytes()));
        format!("{},sha256={sum},{}\n", entry.path, entry.bytes().len())
    };
    entries.iter().map(line).chain([format!("{own},,\n")]).collect()
}
