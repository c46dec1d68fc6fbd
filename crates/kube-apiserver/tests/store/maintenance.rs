//! Check, backup and restore of an embedded store.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use kevel_store::embedded::{Embedded, Options};
use kevel_store::{Engine, Error, RangeOptions, Revision};

use crate::command;

const OBJECT: &str = r#"{"metadata":{"name":"a"}}"#;

fn run(arguments: &[&Path], verb: &str) -> Output {
    command(verb).args(arguments).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_use_is_backed_up_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (live, file, again) =
        (folder.path().join("db"), folder.path().join("backup"), folder.path().join("again"));
    let store = Embedded::open(&live, Options::default()).unwrap();
    for i in 0..100 {
        store.create(format!("/registry/a/{i}").as_bytes(), OBJECT.into(), None).await.unwrap();
    }
    // A store in use cannot be checked, since it changes meanwhile. It can be backed up.
    assert!(!run(&[&live], "check").status.success());
    let backed_up = run(&[&live, &file], "backup");
    assert!(backed_up.status.success(), "{backed_up:?}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds all secrets");
    assert!(!run(&[&live, &file], "backup").status.success(), "a backup is never written over");
    store.create(b"/registry/a/later", OBJECT.into(), None).await.unwrap();
    let restored = run(&[&file, &again], "restore");
    let text = String::from_utf8_lossy(&restored.stdout).into_owned();
    // Clients have seen revisions after the backup: none of them is used again.
    assert!(text.contains("revision 1000000101, 100 keys"), "{restored:?}");
    assert!(run(&[&again], "check").status.success());
    assert!(!run(&[&file, &again], "restore").status.success(), "nothing is restored over a store");
    let store = Embedded::open(&again, Options::default()).unwrap();
    assert_eq!(store.count(b"/registry/a/").await.unwrap(), 100);
    for seen in [Revision(50), Revision(101), Revision(102), Revision(1000)] {
        let watch = store.watch(b"/", seen).await.map(|_| ());
        assert!(matches!(watch, Err(Error::Compacted { .. })), "{seen}: {watch:?}");
        let at = RangeOptions { revision: Some(seen), ..RangeOptions::default() };
        let list = store.range(b"/", at).await;
        assert!(matches!(list, Err(Error::Compacted { .. })), "{seen}: {list:?}");
    }
    // The restored store works: writes, compaction and sweeping.
    let mut last = Revision(0);
    for turn in 0..100 {
        let key = format!("/registry/a/{turn}");
        let entry = store.get(key.as_bytes(), None).await.unwrap().entry.unwrap();
        last = store.update(key.as_bytes(), OBJECT.into(), entry.mod_revision, None).await.unwrap();
    }
    assert_eq!(last, Revision(1_000_000_201));
    store.compact(last).await.unwrap();
    store.close().await;
    assert!(run(&[&again], "check").status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_backup_is_restored_only_without_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (live, again) = (folder.path().join("db"), folder.path().join("again"));
    let store = Embedded::open(&live, Options::default()).unwrap();
    for i in 0..10 {
        let value = format!(r#"{{"metadata":{{"name":"value-{i:04}"}}}}"#);
        store.create(format!("/registry/a/{i}").as_bytes(), value.into(), None).await.unwrap();
    }
    store.close().await;
    damage(&live, "value-0004");
    let file = live.join("kevel.db");
    let refused = run(&[&file, &again], "restore");
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("damaged: /registry/a/4 (revision 6)"), "{said}");
    assert!(!again.join("kevel.db").exists(), "no store is made of it");
    let restored = run(&[Path::new("--drop"), &file, &again], "restore");
    assert!(restored.status.success(), "{restored:?}");
    let checked = run(&[&again], "check");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(said.contains("revision 1000000011, 9 keys"), "{said}");
}

/// Flips a bit of a value in the file.
fn damage(directory: &Path, value: &str) {
    let file = directory.join("kevel.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let place = memchr::memmem::find(&bytes, value.as_bytes()).expect("the value is in the file");
    bytes[place] ^= 1;
    std::fs::write(&file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_objects_are_found_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("db");
    let store = Embedded::open(&directory, Options::default()).unwrap();
    let key = |i: usize| format!("/registry/a/{i}").into_bytes();
    let object = |i: usize| format!(r#"{{"metadata":{{"name":"value-{i:04}"}}}}"#);
    for i in 0..20 {
        store.create(&key(i), object(i).into(), None).await.unwrap();
    }
    // A superseded value, one that cannot be decoded, and the newest of all.
    store.update(&key(3), object(103).into(), Revision(5), None).await.unwrap();
    store.create(b"/registry/a/garbage", "garbage".into(), None).await.unwrap();
    store.create(&key(20), object(20).into(), None).await.unwrap();
    store.close().await;
    for value in ["value-0003", "value-0007", "value-0020"] {
        damage(&directory, value);
    }

    let store = Embedded::open(&directory, Options::default()).unwrap();
    let list = store.range(b"/registry/a/", Default::default()).await.unwrap();
    assert_eq!(list.entries.len(), 20, "19 of the first 20, and the garbage: {list:?}");
    let damaged: Vec<_> =
        list.damaged.iter().map(|damaged| String::from_utf8_lossy(&damaged.key)).collect();
    assert_eq!(damaged, ["/registry/a/20", "/registry/a/7"]);
    let expected = "StorageError: corrupt object, Code: 7, Key: /registry/a/7, ResourceVersion: 0, \
                    AdditionalErrorMsg: the record of revision 9 is not what was written";
    assert_eq!(store.get(&key(7), None).await.unwrap_err().to_string(), expected);
    // A write of the damaged key fails alone.
    let (seven, eight) = (key(7), key(8));
    let (bad, good) = tokio::join!(
        store.delete(&seven, Revision(9)),
        store.update(&eight, object(8).into(), Revision(10), None),
    );
    assert_eq!(bad.unwrap_err().to_string(), expected);
    let last = good.unwrap();
    store.close().await;

    let found = run(&[&directory], "check");
    assert!(!found.status.success());
    let said = String::from_utf8_lossy(&found.stderr).into_owned();
    for line in [
        "damaged: /registry/a/3 (revision 5): the record of revision 5 is not what was written",
        "damaged: /registry/a/7 (revision 9): the record of revision 9 is not what was written",
        "damaged: /registry/a/garbage (revision 23): not a JSON object",
        "damaged: /registry/a/20 (revision 24): the record of revision 24 is not what was written",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    // A copy of it can be made, and the report names the damage.
    let file = folder.path().join("backup");
    assert!(!run(&[&directory, &file], "backup").status.success() && file.exists());

    let dropped = run(&[Path::new("--drop"), &directory], "check");
    assert!(dropped.status.success(), "{dropped:?}");
    let said = String::from_utf8_lossy(&dropped.stderr).into_owned();
    assert_eq!(said.lines().filter(|line| line.starts_with("dropped: ")).count(), 4, "{said}");
    let checked = run(&[&directory], "check");
    assert!(checked.status.success(), "{checked:?}");
    let store = Embedded::open(&directory, Options::default()).unwrap();
    assert_eq!(store.current_revision().await.unwrap(), last, "revisions do not come twice");
    let list = store.range(b"/registry/a/", Default::default()).await.unwrap();
    assert_eq!((list.entries.len(), list.damaged.len()), (19, 0));
    let third = store.get(&key(3), None).await.unwrap().entry.unwrap();
    assert_eq!(third.value, object(103), "only its past was damaged");
    assert_eq!(store.get(&key(7), None).await.unwrap().entry, None);
    let again = store.create(&key(7), object(7).into(), None).await.unwrap();
    assert_eq!(again, last.next());
    let mut watch = store.watch(b"/", last).await.unwrap();
    assert_eq!(watch.next().await.unwrap().events.len(), 1);
    let past = store.watch(b"/", Revision(5)).await;
    assert!(matches!(past, Err(Error::Compacted { .. })), "clients start over");
    store.close().await;
    assert!(run(&[&directory], "check").status.success());
}

/// A backup with foreign triggers or views, which would run when the store is used.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_with_foreign_triggers_or_views_is_refused() {
    const FOREIGN: [(&str, &str); 6] = [
        ("trigger", "CREATE TRIGGER x AFTER INSERT ON history BEGIN DELETE FROM keys; END"),
        ("view", "CREATE VIEW x AS SELECT 1"),
        ("table", "CREATE TABLE x (a)"),
        ("index", "CREATE INDEX x ON history (length(value))"),
        ("view", "DROP TABLE expiring; CREATE VIEW expiring AS SELECT 1 AS expires, 1 AS revision"),
        ("table", "ALTER TABLE history ADD COLUMN x AS (length(value))"),
    ];
    for (kind, statement) in FOREIGN {
        let folder = tempfile::tempdir().unwrap();
        let (live, again) = (folder.path().join("db"), folder.path().join("again"));
        let store = Embedded::open(&live, Options::default()).unwrap();
        for i in 0..10 {
            store.create(format!("/registry/a/{i}").as_bytes(), OBJECT.into(), None).await.unwrap();
        }
        store.close().await;
        assert!(run(&[&live], "check").status.success());
        let file = live.join("kevel.db");
        rusqlite::Connection::open(&file).unwrap().execute_batch(statement).unwrap();

        let opened = Embedded::open(&live, Options::default()).map(|_| ());
        let expected = format!("the {kind} ");
        assert!(
            matches!(&opened, Err(Error::Corrupt(why)) if why.contains(&expected)),
            "{statement}: {opened:?}"
        );
        for (verb, arguments) in [("check", vec![&*live]), ("restore", vec![&*file, &*again])] {
            let refused = run(&arguments, verb);
            let text = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success(), "{verb} {statement}: {refused:?}");
            assert!(text.contains("is not one that a store has"), "{verb} {statement}: {text}");
        }
        assert!(
            Embedded::open(&again, Options::default()).is_err(),
            "{statement}: no store is made"
        );
    }
}
