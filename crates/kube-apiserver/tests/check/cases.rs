//! Cases as text: arguments after `$`, a manifest, and behind a line of `=====` the exit code and what is printed.
//! `KEVEL_WRITE=1` writes down what is printed now.

use std::path::Path;
use std::{env, fs};

use crate::check;

const LINE: &str = "=====\n";

#[test]
fn manifests_are_answered_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check/cases");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 20, "{files:?}");
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let (case, expected) = text.split_once(LINE).unwrap_or((&text, ""));
        let (first, manifest) = case.split_once('\n').unwrap();
        let arguments: Vec<&str> = first.strip_prefix('$').unwrap().split_whitespace().collect();
        let checked = check(&arguments, manifest.as_bytes());
        let found = format!("exit {}\n{}{}", checked.code.unwrap(), checked.stdout, checked.stderr);
        if env::var_os("KEVEL_WRITE").is_some() {
            fs::write(&file, format!("{case}{LINE}{found}")).unwrap();
        } else if found != expected {
            wrong.push(format!("{}\n--- expected\n{expected}--- found\n{found}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
