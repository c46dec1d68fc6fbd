//! Damaged files: damage is detected, and never served.

// Test helpers may unwrap, too.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    path::Path,
};

use kevel_store::{
    Damaged, Engine, Entry, Error, Event, RangeOptions, Result, Revision, UNREPORTED,
    embedded::{self, Embedded, Options},
};
use tempfile::TempDir;

/// Everything that can be read from a store.
#[derive(Debug, Clone, PartialEq)]
struct Contents {
    present: Vec<Entry>,
    damaged: Vec<Damaged>,
    history: Vec<Event>,
}

async fn fill(store: &Embedded, from: u64, to: u64) -> Revision {
    let mut last = Revision(1);
    for turn in from..to {
        let key = format!("/registry/things/{}", turn % 97);
        let value = format!("{turn:>1000}");
        let current = store.get(key.as_bytes(), None).await.unwrap().entry;
        last = match current {
            None => store.create(key.as_bytes(), value.into(), None).await,
            Some(entry) if turn % 13 == 0 => store.delete(key.as_bytes(), entry.mod_revision).await,
            Some(entry) => {
                store.update(key.as_bytes(), value.into(), entry.mod_revision, None).await
            }
        }
        .unwrap();
    }
    last
}

/// Reads everything, or fails on damage.
async fn read(directory: &Path) -> Result<Contents> {
    let store = Embedded::open(directory, Options::default())?;
    let contents = async {
        let list = store.range(b"", RangeOptions::default()).await?;
        let (present, damaged) = (list.entries, list.damaged);
        let last = store.current_revision().await?;
        let mut watch = store.watch(b"", store.compacted_revision()).await?;
        let mut history: Vec<Event> = Vec::new();
        let mut reached = store.compacted_revision().max(Revision(1));
        while reached < last {
            history.extend(watch.next().await?.events);
            reached = history.last().map_or(reached, |event| event.revision);
        }
        Ok(Contents { present, damaged, history })
    };
    let contents = contents.await;
    store.close().await;
    contents
}

fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
    }
    to
}

#[tokio::test]
async fn flipped_bytes_are_never_served() {
    let original = tempfile::tempdir().unwrap();
    let store = Embedded::open(original.path(), Options::default()).unwrap();
    fill(&store, 0, 400).await;
    store.close().await;
    let expected = read(original.path()).await.unwrap();
    assert_eq!(embedded::check(original.path()).unwrap().damaged, []);
    let length = fs::metadata(original.path().join("kevel.db")).unwrap().len();

    let (mut refused, mut only_check, mut harmless, mut dropped) = (0, 0, 0, 0);
    // A stride that is coprime to the page size hits every kind of place.
    for place in (0..length).step_by(1999) {
        let damaged = copy(original.path());
        let path = damaged.path().join("kevel.db");
        let byte = fs::read(&path).unwrap()[place as usize];
        let mut file = fs::File::options().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(place)).unwrap();
        file.write_all(&[byte ^ (1 << (place % 8))]).unwrap();
        drop(file);

        // Before reading, since opening may repair derived data.
        let checked = embedded::check(damaged.path());
        let whole = checked.as_ref().is_ok_and(|report| report.damaged.is_empty());
        match read(damaged.path()).await {
            Err(_) => refused += 1,
            Ok(contents) if contents == expected && whole => harmless += 1,
            Ok(contents) => {
                assert!(!whole, "byte {place}: wrong and not detected");
                for entry in &contents.present {
                    assert!(expected.present.contains(entry), "byte {place}: served {entry:?}");
                }
                only_check += 1;
            }
        }
        // If the file is still a database, dropping the damaged keys leaves a valid store.
        if checked.is_ok_and(|report| !report.damaged.is_empty()) {
            embedded::drop_damaged(damaged.path(), &|_| Ok(()), UNREPORTED).unwrap();
            assert_eq!(embedded::check(damaged.path()).unwrap().damaged, [], "byte {place}");
            let left = read(damaged.path()).await.unwrap();
            assert_eq!(left.damaged, [], "byte {place}");
            let stale = left.present.iter().find(|entry| !expected.present.contains(entry));
            assert_eq!(stale, None, "byte {place}");
            assert!(left.present.len() + 1 >= expected.present.len(), "byte {place}: others gone");
            dropped += 1;
        }
    }
    println!(
        "{refused} refused, {only_check} found and the rest served, {harmless} in unused space, \
         {dropped} repaired"
    );
    assert!(refused > 0 && dropped > 0);
}

#[tokio::test]
async fn a_lost_tail_of_the_log_is_noticed() {
    let original = tempfile::tempdir().unwrap();
    let store = Embedded::open(original.path(), Options::default()).unwrap();
    fill(&store, 0, 100).await;
    // A copy of a running store is the state after a crash.
    let crashed = copy(original.path());
    store.close().await;
    let expected = read(copy(crashed.path()).path()).await.unwrap();
    let log = fs::metadata(crashed.path().join("kevel.db-wal")).unwrap().len();

    for cut in (0..log).step_by(40_009) {
        let damaged = copy(crashed.path());
        let file = fs::File::options().write(true).open(damaged.path().join("kevel.db-wal"));
        file.unwrap().set_len(cut).unwrap();
        match read(damaged.path()).await {
            Err(Error::Corrupt(_) | Error::Unavailable(_)) => {}
            Ok(contents) => assert_eq!(contents, expected, "cut at {cut}"),
            Err(error) => panic!("cut at {cut}: {error}"),
        }
        // Without the note of the acknowledged revision, a prefix of the history is left.
        let _ = fs::remove_file(damaged.path().join("head"));
        if let Ok(contents) = read(damaged.path()).await {
            let kept = contents.history.len();
            assert_eq!(contents.history, expected.history[..kept], "cut at {cut}");
        }
    }
}

#[tokio::test]
async fn a_foreign_database_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let content = "not a database, and longer than a page of one ".repeat(1000);
    fs::write(directory.path().join("kevel.db"), &content).unwrap();
    let outcome = Embedded::open(directory.path(), Options::default());
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
    assert_eq!(fs::read_to_string(directory.path().join("kevel.db")).unwrap(), content);
}

#[tokio::test]
async fn a_backup_is_the_store_as_it_was() {
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    let then = fill(&store, 0, 200).await;
    let file = elsewhere.path().join("backup.db");
    assert_eq!(store.backup(&file).unwrap(), then);
    assert!(matches!(store.backup(&file), Err(Error::Invalid(_))), "it overwrites nothing");
    let at_then = RangeOptions { revision: Some(then), ..RangeOptions::default() };
    fill(&store, 200, 300).await;
    let expected = store.range(b"", at_then).await.unwrap();
    store.close().await;

    let restored = elsewhere.path().join("restored");
    let later = Revision(then.0 + embedded::REVISIONS_SKIPPED);
    assert_eq!(embedded::restore(&file, &restored, false, UNREPORTED).unwrap().revision, later);
    let again = embedded::restore(&file, &restored, false, UNREPORTED);
    assert!(matches!(again, Err(Error::Invalid(_))));
    let store = Embedded::open(&restored, Options::default()).unwrap();
    assert_eq!(store.range(b"", RangeOptions::default()).await.unwrap().entries, expected.entries);
    assert_eq!(store.create(b"/new", "1".into(), None).await.unwrap(), later.next());
    store.close().await;
    assert_eq!(embedded::check(&restored).unwrap().revision, later.next());
}
