//! Everything that packages are made of.

use std::path::{Path, PathBuf};

use super::program::ProgramFile;
use super::{BuildTime, PackageError, licenses};

/// The version of all packages.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything that packages are made of.
#[derive(Debug)]
pub struct Inputs {
    /// One of each architecture, in the order of [`super::program::ARCHITECTURES`].
    pub programs: Vec<ProgramFile>,
    pub time: BuildTime,
    pub license: Vec<u8>,
    /// The licences of everything that is linked.
    pub third_party: Vec<u8>,
    pub changelog: Vec<u8>,
    pub packaging: PathBuf,
}

impl Inputs {
    pub fn read(root: &Path, programs: &[&Path]) -> Result<Self, PackageError> {
        let read = |name: &str| {
            let path = root.join(name);
            std::fs::read(&path).map_err(PackageError::at(&path))
        };
        Ok(Inputs {
            programs: by_architecture(programs)?,
            time: BuildTime::find(root)?,
            license: read("LICENSE")?,
            third_party: licenses::third_party(root)?,
            changelog: read("CHANGELOG.md")?,
            packaging: root.join("packaging"),
        })
    }

    /// A file of `packaging/`.
    pub fn file(&self, name: &str) -> Result<Vec<u8>, PackageError> {
        let path = self.packaging.join(name);
        std::fs::read(&path).map_err(PackageError::at(&path))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.packaging.join(name)
    }

    /// The man page, or the completion for a shell, of the program under a name.
    pub fn manual(&self, kind: &str, program: &str) -> Result<String, PackageError> {
        let date = self.time.rfc3339()?;
        let day = date.split('T').next().unwrap_or_default();
        self.text(&format!("manual/{kind}"), &[("PROGRAM", program), ("DATE", day)])
    }

    /// A text of `packaging/` with `@VERSION@` and more names between at signs filled in.
    pub fn text(&self, name: &str, values: &[(&str, &str)]) -> Result<String, PackageError> {
        let wrong = || PackageError::Template(name.to_owned());
        let mut text = String::from_utf8(self.file(name)?).map_err(|_| wrong())?;
        for (key, value) in [("VERSION", VERSION)].iter().chain(values) {
            text = text.replace(&format!("@{key}@"), value);
        }
        let unfilled = |word: &str| {
            word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        // Every second part stands between two at signs.
        if text.split('@').skip(1).step_by(2).any(unfilled) {
            return Err(wrong());
        }
        Ok(text)
    }
}

fn by_architecture(paths: &[&Path]) -> Result<Vec<ProgramFile>, PackageError> {
    let read: Result<Vec<ProgramFile>, PackageError> =
        paths.iter().map(|path| ProgramFile::read(path)).collect();
    let mut programs = read?;
    programs.sort_by_key(|program| std::cmp::Reverse(program.architecture.name));
    match programs.windows(2).find(|pair| pair[0].architecture == pair[1].architecture) {
        Some(pair) => Err(PackageError::TwoPrograms(pair[0].architecture.name)),
        None => Ok(programs),
    }
}
