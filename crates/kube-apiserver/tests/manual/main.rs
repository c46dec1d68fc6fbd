//! Man page and shell completions, made of the flags that are declared and kept in `packaging/manual`.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

mod completion;
mod page;
mod usage;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use kevel_test_support::program;
use usage::Usage;

/// Name of the program until a package fills in its own.
const PROGRAM: &str = "@PROGRAM@";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/manual")
}

fn documents() -> [(&'static str, String); 4] {
    let usage = Usage::read();
    [
        ("man", page::make(&usage)),
        ("bash", completion::bash(&usage)),
        ("zsh", completion::zsh(&usage)),
        ("fish", completion::fish(&usage)),
    ]
}

#[test]
fn documents_of_packages_are_up_to_date() {
    for (name, text) in documents() {
        let path = folder().join(name);
        if env::var_os("KEVEL_WRITE").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == text,
            "packaging/manual/{name} is stale: KEVEL_WRITE=1 cargo test -p kube-apiserver --test manual"
        );
    }
}

/// A document in a file, with the name of a program.
fn written(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let (_, text) = documents().into_iter().find(|(known, _)| *known == name).unwrap();
    let text = text.replace(PROGRAM, "kube-apiserver");
    fs::write(&path, text.replace("@DATE@", "2026-11-18").replace("@VERSION@", "0.1.0")).unwrap();
    (folder, path)
}

/// Standard output of a program that has nothing to complain about.
fn output(command: &mut Command) -> String {
    let output = command.env("LC_ALL", "C.UTF-8").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn man_shows_every_flag() {
    let Some(man) = program("man") else { return };
    let (_folder, path) = written("man");
    let shown = output(
        Command::new(man)
            .args(["--warnings", "--local-file", "--pager=cat"])
            .arg(path)
            .env("MANWIDTH", "100")
            .env("MAN_KEEP_FORMATTING", ""),
    );
    for flag in Usage::read().flags() {
        assert!(shown.contains(&format!("--{}", flag.name)), "{}", flag.name);
    }
    for text in [
        "kube-apiserver store",
        "kube-apiserver check",
        "--ignore-missing-schemas",
        "EXIT STATUS",
        "./kevel-data/admin.kubeconfig",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

/// Words up to the cursor, and what is offered there.
const COMPLETED: [(&[&str], &[&str]); 9] = [
    (&["che"], &["check"]),
    (&["check", "--warn"], &["--warnings-as-errors"]),
    (&["check", "--output", "s"], &["sarif"]),
    (&["--storage-m"], &["--storage-media-type"]),
    (&["st"], &["store"]),
    (&["store", "ba"], &["backup"]),
    (&["--storage", "em"], &["embedded"]),
    (&["--storage", "x"], &[]),
    (&["--insecure-p"], &[]),
];

#[test]
fn bash_completes_commands_flags_and_values() {
    let Some(bash) = program("bash") else { return };
    let (_folder, path) = written("bash");
    let complete = |words: &[&str]| {
        let script = r#"
            source "$1"; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            _kevel_complete "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            printf '%s\n' "${COMPREPLY[@]}""#;
        let mut command = Command::new(&bash);
        command.args(["--norc", "-uc", script, "bash"]).arg(&path).arg("kube-apiserver");
        let offered = output(command.args(words));
        offered.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<String>>()
    };
    for (words, expected) in COMPLETED {
        assert_eq!(complete(words), expected, "{words:?}");
    }
    // Bash breaks words at an equals sign.
    assert_eq!(complete(&["--storage", "=", "em"]), ["embedded"]);
    assert_eq!(complete(&["--storage", "="]), ["embedded", "memory", "etcd"]);
    assert_eq!(complete(&["--profiling", "=", "f"]), ["false"]);
    let file = path.to_str().unwrap();
    assert_eq!(complete(&["--audit-policy-file", &file[..file.len() - 1]]), [file]);
}

#[test]
fn fish_completes_commands_flags_and_values() {
    let Some(fish) = program("fish") else { return };
    let (folder, path) = written("fish");
    for (words, expected) in COMPLETED {
        let mut command = Command::new(&fish);
        let line = format!("kube-apiserver {}", words.join(" "));
        command.args(["--no-config", "--command", "source $argv[1]; complete -C $argv[2]"]);
        let offered = output(command.arg(&path).arg(line).current_dir(folder.path()));
        let offered: Vec<&str> =
            offered.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(offered, expected, "{words:?}");
    }
}

#[test]
fn zsh_reads_the_completion() {
    let Some(zsh) = program("zsh") else { return };
    let (_folder, path) = written("zsh");
    output(Command::new(&zsh).arg("-n").arg(&path));
    // The arguments are read when the function runs, which takes a terminal: here a stand-in for `_arguments` takes them.
    let script = r#"_arguments() { print -l -- "$@" }; source "$1""#;
    let arguments = output(Command::new(zsh).args(["-fc", script, "zsh"]).arg(&path));
    for expected in ["--storage=[", "*--audit-policy-file=[", "1:command:(store"] {
        assert!(
            arguments.lines().any(|line| line.starts_with(expected)),
            "{expected}: {arguments}"
        );
    }
}
