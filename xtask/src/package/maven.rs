//! The Maven artifact: a jar with the programs of all architectures that were given, and its POM.

use std::process::Command;

use super::archive::{ArchiveEntry, FILE, PROGRAM, zip};
use super::inputs::{Inputs, VERSION};
use super::{PackageError, PackageFile, build};

/// The folder of the Java package, of sources and classes.
const FOLDER: &str = "dev/kevel";
/// The oldest Java that the classes run on.
const RELEASE: &str = "17";

/// Without a Java compiler no artifact is made, and that is told.
pub fn make(inputs: &Inputs) -> Result<Vec<PackageFile>, PackageError> {
    let Some(javac) = kevel_test_support::program("javac") else { return Ok(Vec::new()) };
    let classes = tempfile::tempdir().map_err(PackageError::Scratch)?;
    let source = inputs.path("maven/src/dev/kevel/KevelServer.java");
    let mut command = Command::new(javac);
    command.args(["--release", RELEASE, "-Xlint:all", "-Werror", "-encoding", "UTF-8", "-d"]);
    build::output(command.arg(classes.path()).arg(&source))?;

    let compiled = classes.path().join(FOLDER);
    let mut entries = vec![
        // Readers of jars look for this one first.
        ArchiveEntry::file("META-INF/MANIFEST.MF", FILE, inputs.text("maven/MANIFEST.MF", &[])?),
        ArchiveEntry::file("META-INF/LICENSE", FILE, inputs.license.clone()),
        ArchiveEntry::file("META-INF/THIRD-PARTY.txt", FILE, inputs.third_party.clone()),
    ];
    let mut names = Vec::new();
    for file in std::fs::read_dir(&compiled).map_err(PackageError::at(&compiled))? {
        names.push(file.map_err(PackageError::at(&compiled))?.file_name());
    }
    names.sort();
    for name in names {
        let path = compiled.join(&name);
        let bytes = std::fs::read(&path).map_err(PackageError::at(&path))?;
        entries.push(ArchiveEntry::file(
            format!("{FOLDER}/{}", name.to_string_lossy()),
            FILE,
            bytes,
        ));
    }
    for program in &inputs.programs {
        let path = format!("{FOLDER}/linux-{}/kube-apiserver", program.architecture.java);
        entries.push(ArchiveEntry::file(path, PROGRAM, program.bytes.clone()));
    }
    Ok(vec![
        PackageFile {
            name: format!("kevel-apiserver-{VERSION}.jar"),
            bytes: zip(&entries, &inputs.time)?,
        },
        PackageFile {
            name: format!("kevel-apiserver-{VERSION}.pom"),
            bytes: inputs.text("maven/pom.xml", &[])?.into_bytes(),
        },
    ])
}
