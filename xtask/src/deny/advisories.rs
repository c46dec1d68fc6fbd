//! Known holes, as RustSec's database tells them: a file for each, with TOML at its beginning.

use std::error::Error;
use std::path::{Path, PathBuf};

use semver::{Version, VersionReq};
use serde_json::Value;

use super::{Package, texts, toml};

/// Location of the database, for messages.
pub const WHERE: &str = "RustSec's database (in KEVEL_ADVISORY_DB or ~/.cargo/advisory-db)";

/// The folder of a database, if there is one.
pub fn database() -> Option<PathBuf> {
    let named = std::env::var_os("KEVEL_ADVISORY_DB").map(PathBuf::from);
    let cargo = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo/advisory-db"));
    let all = named.into_iter().chain(cargo);
    all.into_iter().find(|folder| folder.join("crates").is_dir())
}

/// Advisories about crates that are built in, but for those that are to be ignored.
pub fn check(
    packages: &[Package],
    database: &Path,
    config: &Value,
) -> Result<Vec<String>, Box<dyn Error>> {
    let ignored = texts(&config["ignore"]);
    let mut wrong = Vec::new();
    for package in packages.iter().filter(|package| package.source.is_some()) {
        let Ok(files) = std::fs::read_dir(database.join("crates").join(&package.name)) else {
            continue;
        };
        for file in files {
            let path = file?.path();
            let advisory = read(&std::fs::read_to_string(&path)?)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let id = advisory["advisory"]["id"].as_str().unwrap_or_default();
            if !ignored.contains(id) && concerns(&advisory, &package.version)? {
                wrong.push(format!("advisory: {id} is about {}", package.id()));
            }
        }
    }
    Ok(wrong)
}

/// The TOML between the first fences.
fn read(text: &str) -> Result<Value, String> {
    let (_, rest) = text.split_once("```toml").ok_or("no TOML")?;
    let (front, _) = rest.split_once("```").ok_or("TOML without an end")?;
    toml::read(front)
}

/// Whether a version has the hole: no word of it being patched, unaffected or withdrawn. What is only
/// informational (an unmaintained crate) is no hole.
fn concerns(advisory: &Value, version: &str) -> Result<bool, Box<dyn Error>> {
    let about = &advisory["advisory"];
    let informational = matches!(about["informational"].as_str(), Some("notice" | "unmaintained"));
    if !about["withdrawn"].is_null() || informational {
        return Ok(false);
    }
    let version = Version::parse(version)?;
    for field in ["patched", "unaffected"] {
        for requirement in texts(&advisory["versions"][field]) {
            if VersionReq::parse(requirement)?.matches(&version) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_there_until_it_is_patched() {
        let text = |more: &str| {
            format!(
                "```toml\n[advisory]\nid = \"R-1\"\n{more}\n\n[versions]\n\
                 patched = [\"^0.3.26\", \">= 0.4.4\"]\nunaffected = [\"< 0.2\"]\n```\n# Title\n"
            )
        };
        for (more, version, expected) in [
            ("", "0.3.25", true),
            ("", "0.3.26", false),
            ("", "0.4.3", true),
            ("", "1.0.0", false),
            ("", "0.1.9", false),
            ("withdrawn = \"2024-01-01\"", "0.3.25", false),
            ("informational = \"unmaintained\"", "0.3.25", false),
            ("informational = \"unsound\"", "0.3.25", true),
        ] {
            let advisory = read(&text(more)).unwrap();
            assert_eq!(concerns(&advisory, version).unwrap(), expected, "{more} {version}");
        }
    }
}
