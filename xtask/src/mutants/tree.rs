//! The copy of the sources in which faults are planted.
//!
//! A file is written only if it changes: cargo builds again what is newer than its last build, and no more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::MutantsError;
use super::list::FaultList;
use super::plant::{HEAD, MODULE, plant};

/// Folders of the workspace that are not part of it.
const SKIPPED: [&str; 4] = ["target", ".git", "fuzz", "kevel-data"];

/// The copy.
#[derive(Debug)]
pub struct Tree {
    pub folder: PathBuf,
    /// The folder that cargo builds in, that of the real sources: crates of the registry are not built again.
    pub target: PathBuf,
}

impl Tree {
    pub fn at(root: &Path) -> Self {
        let target = root.join("target");
        Tree { folder: target.join("mutants/tree"), target }
    }

    /// Copies the sources and plants the faults; the faults that do not fit.
    pub fn plant(
        &self,
        root: &Path,
        lists: &BTreeMap<String, FaultList>,
    ) -> Result<Vec<String>, MutantsError> {
        let mut files = BTreeSet::new();
        collect(root, Path::new(""), &mut files)?;
        let mut misplaced = Vec::new();
        let mut planted: BTreeMap<PathBuf, String> = BTreeMap::new();
        for (name, list) in lists {
            let folder = Path::new("crates").join(name);
            let wanted: BTreeSet<&str> =
                list.faults.iter().map(|fault| fault.file.as_str()).collect();
            for file in wanted {
                let path = folder.join(file);
                let text = read(&root.join(&path))?;
                let numbered = list.faults.iter().enumerate().map(|(i, fault)| (i + 1, fault));
                let of_file: Vec<_> = numbered.filter(|(_, fault)| fault.file == file).collect();
                match plant(&text, &of_file) {
                    Ok(text) => {
                        planted.insert(path, text);
                    }
                    Err(errors) => misplaced.extend(errors.into_iter().filter_map(|(n, error)| {
                        let fault = list.faults.get(n - 1)?;
                        Some(format!("{}: {}: {error}", path.display(), fault.name))
                    })),
                }
            }
            let lib = folder.join("src/lib.rs");
            let text = match planted.remove(&lib) {
                Some(text) => text,
                None => read(&root.join(&lib))?,
            };
            planted.insert(lib, format!("{HEAD}{text}{MODULE}"));
        }
        if misplaced.is_empty() {
            self.write(root, &files, &planted)?;
        }
        Ok(misplaced)
    }

    fn write(
        &self,
        root: &Path,
        files: &BTreeSet<PathBuf>,
        planted: &BTreeMap<PathBuf, String>,
    ) -> Result<(), MutantsError> {
        let mut left = BTreeSet::new();
        if self.folder.exists() {
            collect(&self.folder, Path::new(""), &mut left)?;
        }
        for gone in left.difference(files) {
            let path = self.folder.join(gone);
            std::fs::remove_file(&path).map_err(MutantsError::at(&path))?;
        }
        for file in files {
            let (from, to) = (root.join(file), self.folder.join(file));
            let bytes = match planted.get(file) {
                Some(text) => text.as_bytes().to_vec(),
                None => std::fs::read(&from).map_err(MutantsError::at(&from))?,
            };
            if std::fs::read(&to).is_ok_and(|known| known == bytes) {
                continue;
            }
            if let Some(folder) = to.parent() {
                std::fs::create_dir_all(folder).map_err(MutantsError::at(folder))?;
            }
            std::fs::write(&to, bytes).map_err(MutantsError::at(&to))?;
            let mode = std::fs::metadata(&from).map_err(MutantsError::at(&from))?.permissions();
            std::fs::set_permissions(&to, mode).map_err(MutantsError::at(&to))?;
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, MutantsError> {
    std::fs::read_to_string(path).map_err(MutantsError::at(path))
}

/// The files below a folder of the root.
fn collect(root: &Path, below: &Path, files: &mut BTreeSet<PathBuf>) -> Result<(), MutantsError> {
    let folder = root.join(below);
    for entry in std::fs::read_dir(&folder).map_err(MutantsError::at(&folder))? {
        let entry = entry.map_err(MutantsError::at(&folder))?;
        let path = below.join(entry.file_name());
        let is_folder = root.join(&path).is_dir();
        let skipped = below == Path::new("") && SKIPPED.iter().any(|name| path == Path::new(name));
        match (is_folder, skipped) {
            (_, true) => {}
            (true, false) => collect(root, &path, files)?,
            (false, false) => {
                files.insert(path);
            }
        }
    }
    Ok(())
}
