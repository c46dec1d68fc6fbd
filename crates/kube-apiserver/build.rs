//! Tells the program which commit it is built of, and when.
//!
//! Only builds for release ask git: a development build would be linked again after each commit. The environment goes
//! before git in every build: `KEVEL_GIT_COMMIT`, `KEVEL_GIT_TREE_STATE`, and `KEVEL_BUILD_DATE` or `SOURCE_DATE_EPOCH`.

#[path = "build/facts.rs"]
mod facts;

use std::env;
use std::path::Path;
use std::time::SystemTime;

use facts::{BuildFacts, EPOCH_VARIABLE, Repository, VARIABLES};

/// Root of the workspace, as seen from this package.
const ROOT: &str = "../..";
/// Sources of the program below the root: a change there may make the tree dirty.
const SOURCES: [&str; 3] = ["crates", "api", "Cargo.lock"];

#[allow(clippy::disallowed_methods, reason = "a build has no server whose clock could be asked")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/facts.rs");
    for variable in VARIABLES.into_iter().chain([EPOCH_VARIABLE]) {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let repository = is_release.then(|| Repository::open(Path::new(ROOT))).flatten();
    if let Some(repository) = &repository {
        let files = repository.files().into_iter().map(|file| file.display().to_string());
        for file in files.chain(SOURCES.map(|source| format!("{ROOT}/{source}"))) {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    let now = is_release.then(SystemTime::now);
    let facts = BuildFacts::new(|name| env::var(name).ok(), repository.as_ref(), now);
    for (variable, value) in VARIABLES.into_iter().zip([facts.commit, facts.tree_state, facts.date])
    {
        println!("cargo::rustc-env={variable}={value}");
    }
}
