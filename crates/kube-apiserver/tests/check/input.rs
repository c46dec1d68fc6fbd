//! Files, directories and texts that are no manifests.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use kevel_clock::monotonic_now;

use crate::{Checked, check};

/// Longest time for a hostile text, in a build that is not optimised, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn stdin(text: &[u8]) -> Checked {
    check(&["-f", "-"], text)
}

#[test]
fn usage_errors_end_with_two() {
    for (arguments, why) in [
        (&[] as &[&str], "must specify -f with a file, a directory or - for standard input"),
        (&["-f"], "flag needs an argument: -f"),
        (&["-f", "-", "--crd=x"], "unknown flag: --crd\ndid you mean --crds?"),
        (&["-f", "/nowhere/at/all.yaml"], "the path \"/nowhere/at/all.yaml\" does not exist"),
        (&["-", "--kubernetes-version=1.12"], "emulation version 1.12"),
        (&["-", "--feature-gates=Nonsense=true"], "unrecognized feature gate: Nonsense"),
    ] {
        let checked = check(arguments, b"");
        assert_eq!(checked.code, Some(2), "{arguments:?} {checked:?}");
        assert!(checked.stderr.contains(why), "{arguments:?} {checked:?}");
        assert_eq!(checked.stdout, "");
    }
}

#[test]
fn help_names_all_flags() {
    let checked = check(&["--help"], b"");
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""));
    for flag in ["--filename", "--crds", "--output", "--skip", "--warnings-as-errors"] {
        assert!(checked.stdout.contains(flag), "{flag}");
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn directories_are_read_with_all_below_them() {
    let folder = tempfile::tempdir().unwrap();
    let bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
    for name in ["b/deep/er/x.yml", "a.yaml", "c.txt", "b/y.JSON", "b/z.json", ".hidden/w.yaml"] {
        write(folder.path(), name, bad);
    }
    std::os::unix::fs::symlink(folder.path(), folder.path().join("circle")).unwrap();
    let checked = check(&["-f", folder.path().to_str().unwrap()], b"");
    let files = checked
        .stdout
        .lines()
        .filter_map(|line| line.split_once(":1: ").or(line.split_once(":3: ")));
    let mut files: Vec<&str> = files.map(|(file, _)| file).collect();
    files.dedup();
    let expected = [".hidden/w.yaml", "a.yaml", "b/deep/er/x.yml", "b/z.json"];
    let expected = expected.map(|name| folder.path().join(name).display().to_string());
    assert_eq!(files, expected, "{checked:?}");
}

#[test]
fn directory_without_manifests_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "README.md", "# x");
    let checked = check(&["-f", folder.path().to_str().unwrap()], b"");
    assert_eq!(checked.code, Some(2), "{checked:?}");
    assert!(checked.stderr.contains("no manifests in"), "{checked:?}");
}

#[test]
fn given_definitions_are_not_reported_as_documents() {
    let folder = tempfile::tempdir().unwrap();
    let definition = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  names: {kind: Foo, plural: foos}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}
";
    write(folder.path(), "crds/foo.yaml", definition);
    let crds = folder.path().join("crds");
    let manifest = "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: a}\nsize: x\n";
    let checked = check(&["-", "--crds", crds.to_str().unwrap()], manifest.as_bytes());
    let expected = "<stdin>:4: error: Foo.example.com \"a\" is invalid: size: Invalid value: \
                    \"string\": size in body must be of type integer: \"string\"\n";
    assert!(checked.stdout.starts_with(expected), "{checked:?}");
    assert!(checked.stdout.contains("1 document in 1 file: 1 error"), "{checked:?}");
}

#[test]
fn unreadable_texts_are_findings() {
    for (text, why) in [
        (&b"\x00\x01\x02binary\xff"[..], "control characters are not allowed"),
        (b"a: [1, 2", "did not find expected"),
        (b"{\"apiVersion\": \"v1\", \"kind\": ", "did not find expected"),
        (b"[1, 2]", "Object 'Kind' is missing"),
        (b"just words", "Object 'Kind' is missing"),
        (b"kind: Pod", "Object 'apiVersion' is missing"),
        (b"a: *nowhere", "unknown anchor 'nowhere' referenced"),
        (b"a: &a [*a]", "anchor 'a' value contains itself"),
        (b"\xff\xfeb\x00a\x00d\x00:\x00", "Object 'Kind' is missing"),
    ] {
        let checked = stdin(text);
        assert_eq!(checked.code, Some(1), "{checked:?}");
        assert!(checked.stdout.starts_with("<stdin>:1: error: "), "{checked:?}");
        assert!(checked.stdout.contains(why), "{checked:?}");
        assert_eq!(checked.stderr, "");
    }
    for empty in ["", "---\n---\n# nothing\n", "\n\n", "...\n", "null\n", "~"] {
        let checked = stdin(empty.as_bytes());
        assert_eq!(checked.code, Some(0), "{empty:?} {checked:?}");
        assert!(checked.stdout.starts_with("0 documents in 1 file"), "{checked:?}");
    }
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: ";
    format!("{head}{}{}\n", open.repeat(depth), close.repeat(depth))
}

#[test]
fn hostile_texts_end_in_time() {
    let mut aliases =
        String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 x\n");
    for level in 1..40 {
        let before = level - 1;
        writeln!(aliases, "a{level}: &a{level} [{}*a{before}]", format!("*a{before},").repeat(9))
            .unwrap();
    }
    let huge = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  a: {}\n",
        "x".repeat(4 << 20)
    );
    let many = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n---\n".repeat(300);
    let list = format!("apiVersion: v1\nkind: List\nitems: [{}]\n", "{kind: Pod},".repeat(20_000));
    let keys: String = (0..50_000).fold(String::new(), |mut text, number| {
        writeln!(text, "x{number}: 1").unwrap();
        text
    });
    let keys = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n{keys}");
    for (text, why) in [
        (nested("[", "]", 100_000), "exceeded max depth"),
        (nested("{a: ", "}", 20_000), "exceeded max depth"),
        (nested("[", "]", 900), ""),
        (aliases, "document contains excessive aliasing"),
        (huge, "Request entity too large: limit is 3145728"),
        (many, "spec.containers: Required value"),
        (list, "Object 'apiVersion' is missing"),
        (keys, "unknown field \"x0\""),
    ] {
        let began = monotonic_now();
        let checked = stdin(text.as_bytes());
        let cut: String = checked.stdout.chars().take(300).collect();
        assert_eq!((checked.code, checked.stderr.as_str()), (Some(1), ""), "{cut}");
        assert!(checked.stdout.contains(why), "{why}: {cut}");
        assert!(monotonic_now() - began < PATIENCE, "{why}: {:?}", monotonic_now() - began);
    }
}

#[test]
fn terminals_get_no_control_characters() {
    let checked = stdin(b"apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\e[31m\"}\n");
    assert_eq!(checked.code, Some(1));
    assert!(!checked.stdout.contains('\u{1b}'), "{checked:?}");
}
