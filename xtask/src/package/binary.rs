//! The program in a compressed archive, one for each architecture.

use super::archive::{ArchiveEntry, FILE, PROGRAM, gzip, tar, with_folders};
use super::inputs::{Inputs, VERSION};
use super::{PackageError, PackageFile};

pub fn make(inputs: &Inputs) -> Result<Vec<PackageFile>, PackageError> {
    let mut packages = Vec::new();
    for program in &inputs.programs {
        let folder = format!("kevel-{VERSION}-{}-linux", program.architecture.name);
        let path = |name: &str| format!("{folder}/{name}");
        let readme = inputs.text("binary/README.md", &[])?;
        let entries = vec![
            ArchiveEntry::file(path("kube-apiserver"), PROGRAM, program.bytes.clone()),
            ArchiveEntry::file(path("README.md"), FILE, readme),
            ArchiveEntry::file(path("CHANGELOG.md"), FILE, inputs.changelog.clone()),
            ArchiveEntry::file(path("LICENSE"), FILE, inputs.license.clone()),
            ArchiveEntry::file(path("THIRD-PARTY.txt"), FILE, inputs.third_party.clone()),
        ];
        let bytes = gzip(&tar(&with_folders(entries), &inputs.time)?)?;
        packages.push(PackageFile { name: format!("{folder}.tar.gz"), bytes });
    }
    Ok(packages)
}
