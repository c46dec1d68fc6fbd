//! Progress of long work.

use std::path::Path;
use std::process::{Command, Output};

use kevel_store::Engine as _;
use kevel_store::embedded::{Embedded, Options};
use kevel_test_support::program;

/// Enough records for several reports.
const OBJECTS: usize = 3000;

async fn filled(folder: &Path) {
    let store = Embedded::open(folder, Options::default()).unwrap();
    for number in 0..OBJECTS {
        let key = format!("/registry/things/{number}");
        store.create(key.as_bytes(), r#"{"metadata":{}}"#.into(), None).await.unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn line_is_rewritten_on_a_terminal_and_plain_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    filled(&db).await;
    let plain = crate::command("check").arg(&db).output().unwrap();
    let said = String::from_utf8_lossy(&plain.stderr).into_owned();
    assert!(plain.status.success() && said.starts_with("reading the whole file\n"), "{said}");
    assert!(!said.contains(['\r', '\x1b']), "{said:?}");

    let Some(script) = program("script") else { return };
    let command =
        format!("'{}' store check '{}'", env!("CARGO_BIN_EXE_kube-apiserver"), db.display());
    let terminal: Output =
        Command::new(script).args(["-qec", &command, "/dev/null"]).output().unwrap();
    let said = String::from_utf8_lossy(&terminal.stdout).into_owned();
    assert!(terminal.status.success(), "{said:?}");
    assert!(said.contains("\r\x1b[Kreading the whole file"), "{said:?}");
    // The result stands on a line of its own.
    let result = said.rsplit("\r\x1b[K").next().unwrap();
    assert!(result.starts_with("ok: revision "), "{said:?}");
}
