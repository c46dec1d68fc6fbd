//! The program in a compressed archive, one for each architecture.

use super::archive::{ArchiveEntry, FILE, PROGRAM, gzip, tar, with_folders};
use super::inputs::{Inputs, VERSION};
use super::{PackageError, PackageFile};

/// Name of the program in the archive.
const NAME: &str = "kube-apiserver";
/// The man page and completions for shells, and their names in the archive.
const MANUAL: [(&str, &str); 4] = [
    ("man", "share/kube-apiserver.1"),
    ("bash", "share/kube-apiserver.bash"),
    ("fish", "share/kube-apiserver.fish"),
    ("zsh", "share/_kube-apiserver"),
];

pub fn make(inputs: &Inputs) -> Result<Vec<PackageFile>, PackageError> {
    let mut packages = Vec::new();
    for program in &inputs.programs {
        let folder = format!("kevel-{VERSION}-{}-linux", program.architecture.name);
        let path = |name: &str| format!("{folder}/{name}");
        let readme = inputs.text("binary/README.md", &[])?;
        let mut entries = vec![
            ArchiveEntry::file(path(NAME), PROGRAM, program.bytes.clone()),
            ArchiveEntry::file(path("README.md"), FILE, readme),
            ArchiveEntry::file(path("CHANGELOG.md"), FILE, inputs.changelog.clone()),
            ArchiveEntry::file(path("LICENSE"), FILE, inputs.license.clone()),
            ArchiveEntry::file(path("THIRD-PARTY.txt"), FILE, inputs.third_party.clone()),
        ];
        for (kind, name) in MANUAL {
            entries.push(ArchiveEntry::file(path(name), FILE, inputs.manual(kind, NAME)?));
        }
        let bytes = gzip(&tar(&with_folders(entries), &inputs.time)?)?;
        packages.push(PackageFile { name: format!("{folder}.tar.gz"), bytes });
    }
    Ok(packages)
}
