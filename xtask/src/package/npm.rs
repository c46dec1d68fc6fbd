//! The npm package, with the programs of all architectures that were given.

use super::archive::{ArchiveEntry, FILE, PROGRAM, gzip, tar, with_folders};
use super::inputs::{Inputs, VERSION};
use super::{PackageError, PackageFile};

/// Files beside `package.json`, and their modes.
const FILES: [(&str, u32); 4] = [
    ("index.js", FILE),
    ("index.d.ts", FILE),
    ("README.md", FILE),
    ("bin/kevel-apiserver.js", PROGRAM),
];

pub fn make(inputs: &Inputs) -> Result<Vec<PackageFile>, PackageError> {
    let path = |name: &str| format!("package/{name}");
    let processors: Vec<String> = inputs
        .programs
        .iter()
        .map(|program| format!("\"{}\"", program.architecture.node))
        .collect();
    let manifest = inputs.text("npm/package.json", &[("PROCESSORS", &processors.join(", "))])?;
    let mut entries = vec![
        ArchiveEntry::file(path("package.json"), FILE, manifest),
        ArchiveEntry::file(path("LICENSE"), FILE, inputs.license.clone()),
        ArchiveEntry::file(path("THIRD-PARTY.txt"), FILE, inputs.third_party.clone()),
    ];
    for (name, mode) in FILES {
        let file = inputs.text(&format!("npm/{name}"), &[])?;
        entries.push(ArchiveEntry::file(path(name), mode, file));
    }
    for program in &inputs.programs {
        let name = path(&format!("linux-{}/kube-apiserver", program.architecture.node));
        entries.push(ArchiveEntry::file(name, PROGRAM, program.bytes.clone()));
    }
    let bytes = gzip(&tar(&with_folders(entries), &inputs.time)?)?;
    Ok(vec![PackageFile { name: format!("kevel-apiserver-{VERSION}.tgz"), bytes }])
}
