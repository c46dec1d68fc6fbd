//! Checks of dependencies by `deny.toml`: licences, versions, sources, and known holes.
//!
//! The file is cargo-deny's, and `cargo deny check` gives the same result. Building that tool takes
//! longer than all of CI may, so the checks that matter here are done by hand: over what `cargo metadata` says.

mod advisories;
mod license;
mod toml;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A crate that is built in.
struct Package {
    name: String,
    version: String,
    license: String,
    /// `None` for those of this repository.
    source: Option<String>,
}

impl Package {
    /// `h2@0.4.4`, as `deny.toml` names it.
    fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// Checks everything, and fails with all that is wrong.
pub fn run(config: &Path) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(config)
        .map_err(|error| format!("{}: {error}", config.display()))?;
    let config = toml::read(&text)?;
    let packages = packages()?;
    let mut wrong = licenses(&packages, &config["licenses"])?;
    wrong.extend(duplicates(&packages, &config["bans"]));
    wrong.extend(sources(&packages, &config["sources"]));
    match advisories::database() {
        Some(database) => {
            wrong.extend(advisories::check(&packages, &database, &config["advisories"])?);
            println!("advisories: {}", database.display());
        }
        None => kevel_test_support::skip(advisories::WHERE),
    }
    println!("{} crates: {} problems", packages.len(), wrong.len());
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n").into()),
    }
}

/// All crates that any platform and feature needs, tests included.
fn packages() -> Result<Vec<Package>, Box<dyn Error>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output =
        cargo.args(["metadata", "--format-version=1", "--locked", "--all-features"]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("metadata without packages")?;
    let text =
        |package: &Value, field: &str| package[field].as_str().unwrap_or_default().to_owned();
    let read = |package: &Value| Package {
        name: text(package, "name"),
        version: text(package, "version"),
        license: text(package, "license"),
        source: package["source"].as_str().map(str::to_owned),
    };
    Ok(packages.iter().map(read).collect())
}

/// Crates whose licence is none of those allowed, for all or for them.
fn licenses(packages: &[Package], config: &Value) -> Result<Vec<String>, Box<dyn Error>> {
    let allowed = texts(&config["allow"]);
    let mut unused: BTreeSet<&str> = BTreeSet::new();
    let mut exceptions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for exception in list(&config["exceptions"]) {
        let name = exception["crate"].as_str().ok_or("an exception without a crate")?;
        exceptions.insert(name, texts(&exception["allow"]));
        unused.insert(name);
    }
    let mut wrong = Vec::new();
    for package in packages {
        let own = exceptions.get(package.name.as_str());
        let may = |license: &str| {
            allowed.contains(license) || own.is_some_and(|own| own.contains(license))
        };
        if license::is_satisfied(&package.license, &|license| allowed.contains(license))? {
            continue;
        }
        unused.remove(package.name.as_str());
        if !license::is_satisfied(&package.license, &may)? {
            wrong.push(format!("licence: {} has {:?}", package.id(), package.license));
        }
    }
    wrong.extend(unused.iter().map(|name| format!("licence: no exception is needed for {name}")));
    Ok(wrong)
}

/// Crates that are there in several versions, but for those that are listed with a reason.
fn duplicates(packages: &[Package], config: &Value) -> Vec<String> {
    let skipped: BTreeSet<&str> =
        list(&config["skip"]).iter().filter_map(|skip| skip["crate"].as_str()).collect();
    let mut versions: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(package);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut wrong = Vec::new();
    for (name, versions) in &versions {
        let left = versions.iter().filter(|package| !skipped.contains(package.id().as_str()));
        let left: Vec<&str> = left.map(|package| package.version.as_str()).collect();
        if left.len() > 1 {
            wrong.push(format!("duplicate: {name} in the versions {}", left.join(", ")));
        }
    }
    let known: BTreeSet<String> = versions.values().flatten().map(|package| package.id()).collect();
    let stale = skipped.iter().filter(|skip| !known.contains(**skip));
    wrong.extend(stale.map(|skip| format!("duplicate: {skip} is skipped and not there twice")));
    wrong
}

/// Crates that come from elsewhere than the registries that are allowed.
fn sources(packages: &[Package], config: &Value) -> Vec<String> {
    let allowed = texts(&config["allow-registry"]);
    let foreign = packages.iter().filter(|package| {
        let registry = package.source.as_deref().map(|source| source.strip_prefix("registry+"));
        registry.is_some_and(|registry| registry.is_none_or(|url| !allowed.contains(url)))
    });
    let said = |package: &Package| format!("source: {} is from {:?}", package.id(), package.source);
    foreign.map(said).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value) -> BTreeSet<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, license: &str, source: Option<&str>) -> Package {
        let (name, version) = (name.to_owned(), version.to_owned());
        Package { name, version, license: license.to_owned(), source: source.map(str::to_owned) }
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        let config = r#"
            [licenses]
            allow = ["MIT"]
            exceptions = [{ allow = ["MPL-2.0"], crate = "b" }, { allow = ["MPL-2.0"], crate = "x" }]
            [bans]
            skip = [
              { crate = "a@1.0.0", reason = "of b" }, # kept
              { crate = "z@1.0.0", reason = "gone" },
            ]
            [sources]
            allow-registry = ["https://r"]
        "#;
        let config = toml::read(config).unwrap();
        let packages = [
            package("a", "1.0.0", "MIT OR GPL-3.0", Some("registry+https://r")),
            package("a", "2.0.0", "MIT", Some("registry+https://other")),
            package("b", "1.0.0", "MPL-2.0", Some("git+https://r")),
            package("c", "1.0.0", "GPL-3.0 AND MIT", None),
            package("c", "2.0.0", "MIT", None),
        ];
        assert_eq!(
            licenses(&packages, &config["licenses"]).unwrap(),
            [r#"licence: c@1.0.0 has "GPL-3.0 AND MIT""#, "licence: no exception is needed for x"]
        );
        assert_eq!(
            duplicates(&packages, &config["bans"]),
            [
                "duplicate: c in the versions 1.0.0, 2.0.0",
                "duplicate: z@1.0.0 is skipped and not there twice"
            ]
        );
        assert_eq!(
            sources(&packages, &config["sources"]),
            [
                r#"source: a@2.0.0 is from Some("registry+https://other")"#,
                r#"source: b@1.0.0 is from Some("git+https://r")"#
            ]
        );
    }
}
