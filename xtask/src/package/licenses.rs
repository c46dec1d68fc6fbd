//! The licences of everything that is linked into the program, as their packages hold them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::PackageError;
use super::build::output;
use super::program::ARCHITECTURES;

/// The program that is packaged.
const ROOT: &str = "kube-apiserver";
/// Beginnings of the names of files with licences, in capital letters.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];
const APACHE: &str = "Apache-2.0";
/// Folders deep in which C sources of crates have their own licences.
const DEPTH: usize = 4;

/// A crate that is linked.
#[derive(Debug)]
struct LinkedCrate {
    id: String,
    license: String,
    repository: String,
    /// Texts of its licences.
    texts: BTreeSet<String>,
}

/// One text: what is not a crate, a list of the crates, and each licence text once, with the crates that it is of.
pub fn third_party(root: &Path) -> Result<Vec<u8>, PackageError> {
    let path = root.join("packaging/third-party.txt");
    let head = std::fs::read_to_string(&path).map_err(PackageError::at(&path))?;
    let path = root.join("LICENSE");
    let apache = std::fs::read_to_string(&path).map_err(PackageError::at(&path))?;
    let crates = with_texts(linked(&metadata(root)?)?, apache.trim())?;
    let mut text = head;
    text.push_str("\nCrates\n======\n\n");
    for LinkedCrate { id, license, repository, .. } in &crates {
        text.push_str(&format!("{id}: {license} ({repository})\n"));
    }
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for of in &crates {
        for license in &of.texts {
            owners.entry(license).or_default().push(&of.id);
        }
    }
    let mut texts: Vec<(Vec<&str>, &str)> =
        owners.into_iter().map(|(text, crates)| (crates, text)).collect();
    texts.sort();
    for (crates, license) in texts {
        let line = "-".repeat(78);
        text.push_str(&format!("\n{line}\n{}\n{line}\n\n{}\n", crates.join(", "), license.trim()));
    }
    Ok(text.into_bytes())
}

fn metadata(root: &Path) -> Result<Value, PackageError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["metadata", "--format-version=1", "--locked"]);
    for architecture in ARCHITECTURES {
        command.arg("--filter-platform");
        command.arg(format!("{}-unknown-linux-musl", architecture.name));
    }
    serde_json::from_str(&output(&mut command)?).map_err(|_| PackageError::Metadata("no JSON"))
}

/// Crates of others that the program reaches without build and test dependencies.
fn linked(metadata: &Value) -> Result<Vec<LinkedCrate>, PackageError> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let by_id = |values: Vec<Value>| -> BTreeMap<String, Value> {
        let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
        values.into_iter().map(|value| (id(&value), value)).collect()
    };
    let packages = by_id(list(&metadata["packages"]));
    let nodes = by_id(list(&metadata["resolve"]["nodes"]));
    let is_root = |package: &Value| package["name"] == ROOT;
    let mut waiting: Vec<&str> = packages
        .iter()
        .filter(|(_, package)| package["source"].is_null() && is_root(package))
        .map(|(id, _)| id.as_str())
        .collect();
    if waiting.len() != 1 {
        return Err(PackageError::Metadata("the program is not there"));
    }
    let mut seen: BTreeSet<&str> = waiting.iter().copied().collect();
    while let Some(id) = waiting.pop() {
        let node = nodes.get(id).ok_or(PackageError::Metadata("a node is missing"))?;
        for dependency in node["deps"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let kinds = dependency["dep_kinds"].as_array().map(Vec::as_slice).unwrap_or_default();
            let Some(id) = dependency["pkg"].as_str() else { continue };
            if kinds.iter().any(|kind| kind["kind"].is_null()) && seen.insert(id) {
                waiting.push(id);
            }
        }
    }
    let foreign = seen
        .iter()
        .filter_map(|id| packages.get(*id))
        .filter(|package| !package["source"].is_null());
    foreign.map(read).collect()
}

fn read(package: &Value) -> Result<LinkedCrate, PackageError> {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let folder = Path::new(text("manifest_path")).parent().unwrap_or(Path::new("."));
    let mut texts = BTreeSet::new();
    collect(folder, DEPTH, &mut texts)?;
    Ok(LinkedCrate {
        id: format!("{} {}", text("name"), text("version")),
        // As expressions were written once.
        license: text("license").replace('/', " OR "),
        repository: text("repository").trim_end_matches(".git").to_owned(),
        texts,
    })
}

fn collect(folder: &Path, depth: usize, texts: &mut BTreeSet<String>) -> Result<(), PackageError> {
    for entry in std::fs::read_dir(folder).map_err(PackageError::at(folder))? {
        let path = entry.map_err(PackageError::at(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, texts)?;
        } else if path.is_file() && is_license(&name) {
            let bytes = std::fs::read(&path).map_err(PackageError::at(&path))?;
            let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
            texts.insert(text.trim().to_owned());
        }
    }
    Ok(())
}

/// Whether a name in capital letters is that of a licence's text, not of a source that deals with licences.
fn is_license(name: &str) -> bool {
    let is_source =
        [".RS", ".C", ".H", ".PY", ".GO", ".TOML"].iter().any(|end| name.ends_with(end));
    NAMES.iter().any(|beginning| name.starts_with(beginning)) && !is_source
}

/// Gives crates without a text those of a crate of the same repository and licence, or the text of the Apache License,
/// which names no owner and so is the same for all.
fn with_texts(
    mut crates: Vec<LinkedCrate>,
    apache: &str,
) -> Result<Vec<LinkedCrate>, PackageError> {
    let mut known: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for of in crates.iter().filter(|of| !of.texts.is_empty()) {
        known
            .entry((of.repository.clone(), of.license.clone()))
            .or_insert_with(|| of.texts.clone());
    }
    for of in crates.iter_mut().filter(|of| of.texts.is_empty()) {
        let texts = known.get(&(of.repository.clone(), of.license.clone()));
        let is_apache = || of.license.split(" OR ").any(|license| license == APACHE);
        let texts = texts.cloned().or_else(|| is_apache().then(|| [apache.to_owned()].into()));
        of.texts = texts.ok_or_else(|| PackageError::NoLicense(of.id.clone()))?;
    }
    crates.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str, repository: &str, texts: &[&str]) -> LinkedCrate {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        let (license, repository) = ("MIT".to_owned(), repository.to_owned());
        LinkedCrate { id: id.to_owned(), license, repository, texts }
    }

    #[test]
    fn no_crate_goes_without_a_text() {
        let of_both = vec![of("b 1", "r", &[]), of("a 1", "r", &["text"])];
        let crates = with_texts(of_both, "apache").unwrap();
        assert!(crates.iter().all(|of| of.texts.contains("text")), "{crates:?}");
        let alone = with_texts(vec![of("a 1", "r", &["text"]), of("c 1", "other", &[])], "apache");
        assert!(matches!(alone, Err(PackageError::NoLicense(id)) if id == "c 1"));
        for license in ["Apache-2.0", "MIT OR Apache-2.0"] {
            let apache = LinkedCrate { license: license.to_owned(), ..of("d 1", "r", &[]) };
            let crates = with_texts(vec![apache], "apache").unwrap();
            assert!(crates[0].texts.contains("apache"), "{crates:?}");
        }
    }
}
