//! The table of gates for readers, and the code that looks at the gates.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use kevel_features::{Feature, GateEffect, document};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_page_of_gates_is_up_to_date() {
    let path = root().join("docs/feature-gates.md");
    if env::var_os("KEVEL_WRITE").is_some() {
        fs::write(&path, document()).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap();
    assert!(page == document(), "docs/feature-gates.md is stale: run this test with KEVEL_WRITE=1");
}

/// Names of gates that sources mention as `Feature::NAME`, without their tests.
fn mentioned(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            mentioned(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let names = code.split("Feature::").skip(1).map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                rest[..end].to_owned()
            });
            found.extend(names);
        }
    }
}

#[test]
fn the_server_looks_at_exactly_the_honoured_gates() {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name != "features" && name != "test-support" {
            mentioned(&path.join("src"), &mut found);
        }
    }
    for gate in Feature::gates() {
        let honoured = gate.effect == GateEffect::Honoured;
        assert_eq!(found.contains(gate.name), honoured, "{}: {:?}", gate.name, gate.effect);
    }
}
