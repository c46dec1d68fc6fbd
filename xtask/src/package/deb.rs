//! Debian packages, one for each architecture.

use super::archive::{ArchiveEntry, FILE, PROGRAM, ar, gzip, tar, with_folders};
use super::inputs::{Inputs, VERSION};
use super::program::ProgramFile;
use super::{PackageError, PackageFile};

/// The name of the package, and of the program in it.
const NAME: &str = "kevel-apiserver";

/// Completions for shells, and the paths where these look for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/kevel-apiserver"),
    ("fish", "usr/share/fish/vendor_completions.d/kevel-apiserver.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_kevel-apiserver"),
];
/// Scripts that the package manager runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// The glibc that programs which are linked dynamically need: that of Debian 12.
const LIBRARIES: &str = "libc6 (>= 2.36), libgcc-s1, ";

pub fn make(inputs: &Inputs) -> Result<Vec<PackageFile>, PackageError> {
    let mut packages = Vec::new();
    for program in &inputs.programs {
        let architecture = program.architecture.debian;
        let data = with_folders(data(inputs, program)?);
        let control = with_folders(control(inputs, program, &data)?);
        // Debian's archives have the folder itself as their first entry.
        let packed = |entries: Vec<ArchiveEntry>| -> Result<Vec<u8>, PackageError> {
            let below = entries
                .into_iter()
                .map(|entry| ArchiveEntry { path: format!("./{}", entry.path), ..entry });
            let all: Vec<ArchiveEntry> =
                std::iter::once(ArchiveEntry::folder(".")).chain(below).collect();
            gzip(&tar(&all, &inputs.time)?)
        };
        let files = [
            ("debian-binary", b"2.0\n".to_vec()),
            ("control.tar.gz", packed(control)?),
            ("data.tar.gz", packed(data)?),
        ];
        let name = format!("{NAME}_{VERSION}_{architecture}.deb");
        packages.push(PackageFile { name, bytes: ar(&files, &inputs.time)? });
    }
    Ok(packages)
}

fn data(inputs: &Inputs, program: &ProgramFile) -> Result<Vec<ArchiveEntry>, PackageError> {
    let doc = |name: &str| format!("usr/share/doc/{NAME}/{name}");
    let date = inputs.time.rfc2822()?;
    let changelog = inputs.text("deb/changelog", &[("DATE", &date)])?;
    let mut entries = vec![
        ArchiveEntry::file(format!("usr/bin/{NAME}"), PROGRAM, program.bytes.clone()),
        ArchiveEntry::file(
            "lib/systemd/system/kevel.service",
            FILE,
            inputs.file("deb/kevel.service")?,
        ),
        ArchiveEntry::file("etc/default/kevel", FILE, inputs.file("deb/kevel.default")?),
        ArchiveEntry::file(doc("copyright"), FILE, inputs.file("deb/copyright")?),
        ArchiveEntry::file(doc("changelog.gz"), FILE, gzip(changelog.as_bytes())?),
        ArchiveEntry::file(doc("THIRD-PARTY.txt.gz"), FILE, gzip(&inputs.third_party)?),
    ];
    for (kind, path) in COMPLETIONS {
        entries.push(ArchiveEntry::file(path, FILE, inputs.manual(kind, NAME)?));
    }
    let page = gzip(inputs.manual("man", NAME)?.as_bytes())?;
    entries.push(ArchiveEntry::file(format!("usr/share/man/man1/{NAME}.1.gz"), FILE, page));
    let overrides = inputs.file("deb/lintian-overrides")?;
    entries.push(ArchiveEntry::file(
        format!("usr/share/lintian/overrides/{NAME}"),
        FILE,
        overrides,
    ));
    Ok(entries)
}

fn control(
    inputs: &Inputs,
    program: &ProgramFile,
    data: &[ArchiveEntry],
) -> Result<Vec<ArchiveEntry>, PackageError> {
    // The unit is KiB, each file rounded up.
    let size: usize = data.iter().map(|entry| entry.bytes().len().div_ceil(1024)).sum();
    let control = inputs.text(
        "deb/control",
        &[
            ("ARCHITECTURE", program.architecture.debian),
            ("SIZE", &size.to_string()),
            ("LIBRARIES", if program.is_static { "" } else { LIBRARIES }),
        ],
    )?;
    let mut entries = vec![
        ArchiveEntry::file("control", FILE, control),
        ArchiveEntry::file("conffiles", FILE, "/etc/default/kevel\n"),
    ];
    for script in SCRIPTS {
        entries.push(ArchiveEntry::file(script, PROGRAM, inputs.file(&format!("deb/{script}"))?));
    }
    Ok(entries)
}
