//! Skipping of tests, visible on standard error and to CI.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Environment variable with the file to which every skipped test adds a line. `.ci/run` prints it at its end, and
/// fails if something was skipped that it provides.
const SKIPPED: &str = "KEVEL_SKIPPED";

/// Reports that the running test is skipped because something is missing: a program, or another need. The caller
/// returns then.
pub fn skip(need: &str) {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("SKIPPED for want of {need}: {package} {test}\n");
    // Written to standard error directly: output of `eprintln!` in a passing test is captured.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(list) = std::env::var_os(SKIPPED) {
        note(Path::new(&list), &line);
    }
}

/// Path of a program: from the variable `KEVEL_` with its name, or on the `PATH`. If there is none, the running test is
/// skipped.
pub fn program(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(format!("KEVEL_{}", name.to_uppercase())).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = named.into_iter().chain(installed).find(|file| file.is_file());
    if found.is_none() {
        skip(name);
    }
    found
}

/// Appends a line in one write, because tests run in parallel.
fn note(list: &Path, line: &str) {
    let file = OpenOptions::new().create(true).append(true).open(list);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{}: {error}", list.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("skipped");
        note(&list, "SKIPPED for want of a: x\n");
        note(&list, "SKIPPED for want of b: y\n");
        let text = std::fs::read_to_string(&list).unwrap();
        assert_eq!(text, "SKIPPED for want of a: x\nSKIPPED for want of b: y\n");
    }

    #[test]
    fn programs_are_found() {
        assert!(program("sh").is_some_and(|path| path.ends_with("sh")));
    }
}
