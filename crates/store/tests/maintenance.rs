//! The command that looks after a store.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use kevel_store::Engine;
use kevel_store::embedded::{Embedded, Options};

fn run(arguments: &[&Path], verb: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kevel-store")).arg(verb).args(arguments).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_use_is_backed_up_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (live, file, again) =
        (folder.path().join("db"), folder.path().join("backup"), folder.path().join("again"));
    let store = Embedded::open(&live, Options::default()).unwrap();
    for i in 0..100 {
        store.create(format!("/registry/a/{i}").as_bytes(), "x".into(), None).await.unwrap();
    }
    // A store in use cannot be checked: it changes under the eyes. It can be backed up.
    assert!(!run(&[&live], "check").status.success());
    let backed_up = run(&[&live, &file], "backup");
    assert!(backed_up.status.success(), "{backed_up:?}");
    assert!(!run(&[&live, &file], "backup").status.success(), "a backup is never written over");
    store.create(b"/registry/a/later", "x".into(), None).await.unwrap();
    let restored = run(&[&file, &again], "restore");
    let text = String::from_utf8_lossy(&restored.stdout).into_owned();
    assert!(text.contains("revision 101, 100 keys"), "{restored:?}");
    assert!(run(&[&again], "check").status.success());
    assert!(!run(&[&file, &again], "restore").status.success(), "nothing is restored over a store");
    let store = Embedded::open(&again, Options::default()).unwrap();
    assert_eq!(store.count(b"/registry/a/").await.unwrap(), 100);
}
