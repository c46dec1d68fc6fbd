//! Facts of a program's build.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

#[path = "../build/facts.rs"]
mod facts;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use facts::{BuildFacts, Repository};
use kevel_test_support::program;

fn git(folder: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    let mut command = Command::new("git");
    let output = command.arg("-C").arg(folder).args(identity).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn at(seconds: u64) -> Option<SystemTime> {
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[test]
fn facts_are_those_of_the_repository_at_the_root() {
    if program("git").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    git(root, &["init", "-q"]);
    assert!(Repository::open(root).is_none(), "there is no commit");
    std::fs::write(root.join("a"), "1").unwrap();
    git(root, &["add", "a"]);
    git(root, &["commit", "-q", "-m", "one"]);
    let commit = git(root, &["rev-parse", "HEAD"]);
    let repository = Repository::open(root).unwrap();
    let facts = || BuildFacts::new(|_| None, Some(&repository), at(1_795_000_000));
    let date = "2026-11-18T11:06:40Z".to_owned();
    let clean = BuildFacts { commit: commit.clone(), tree_state: "clean".to_owned(), date };
    assert_eq!(facts(), clean);
    let files = repository.files();
    assert!(files.iter().any(|file| file.ends_with("HEAD")), "{files:?}");
    assert!(files.len() > 1 && files.iter().all(|file| file.exists()), "{files:?}");
    std::fs::write(root.join("a"), "2").unwrap();
    assert_eq!(facts(), BuildFacts { tree_state: "dirty".to_owned(), ..clean });
    // The sources of a package that was unpacked below some repository are not of it.
    std::fs::create_dir(root.join("below")).unwrap();
    assert!(Repository::open(&root.join("below")).is_none());
}

#[test]
fn environment_goes_before_git_and_the_clock() {
    let unknown = BuildFacts::new(|_| None, None, None);
    assert_eq!(unknown.commit, "unknown");
    assert_eq!((unknown.tree_state.as_str(), unknown.date.as_str()), ("", "1970-01-01T00:00:00Z"));
    for (seconds, date) in [
        ("0", "1970-01-01T00:00:00Z"),
        ("951782399", "2000-02-28T23:59:59Z"),
        ("951782400", "2000-02-29T00:00:00Z"),
        ("4107542400", "2100-03-01T00:00:00Z"),
        ("1767225599", "2025-12-31T23:59:59Z"),
    ] {
        let environment = |name: &str| (name == "SOURCE_DATE_EPOCH").then(|| seconds.to_owned());
        assert_eq!(BuildFacts::new(environment, None, at(5)).date, date);
    }
    let given = |name: &str| Some(format!("given {name}"));
    let facts = BuildFacts::new(given, None, at(5));
    assert_eq!(facts.commit, "given KEVEL_GIT_COMMIT");
    assert_eq!(facts.tree_state, "given KEVEL_GIT_TREE_STATE");
    assert_eq!(facts.date, "given KEVEL_BUILD_DATE");
}
