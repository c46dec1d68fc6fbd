//! The program in a compressed archive, one for each architecture.

use super::archive::{Entry, FILE, PROGRAM, gzip, tar, with_folders};
use super::inputs::{Inputs, VERSION};
use super::{Package, PackageError};

pub fn make(inputs: &Inputs) -> Result<Vec<Package>, PackageError> {
    let mut packages = Vec::new();
    for program in &inputs.programs {
        let folder = format!("kevel-{VERSION}-{}-linux", program.architecture.name);
        let path = |name: &str| format!("{folder}/{name}");
        let readme = inputs.text("binary/README.md", &[])?;
        let entries = vec![
            Entry::file(path("kube-apiserver"), PROGRAM, program.bytes.clone()),
            Entry::file(path("README.md"), FILE, readme),
            Entry::file(path("CHANGELOG.md"), FILE, inputs.changelog.clone()),
            Entry::file(path("LICENSE"), FILE, inputs.license.clone()),
            Entry::file(path("THIRD-PARTY.txt"), FILE, inputs.third_party.clone()),
        ];
        let bytes = gzip(&tar(&with_folders(entries), &inputs.time)?)?;
        packages.push(Package { name: format!("{folder}.tar.gz"), bytes });
    }
    Ok(packages)
}
