//! Damaged rows of the database: noticed by checksums, and by what else is known.

use super::*;

async fn count(store: &Embedded, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    let count = |c: &Connection| c.query_row(&sql, [], |row| row.get(0)).map_err(sqlite);
    store.shared.database.read(count).unwrap()
}

fn execute(store: &Embedded, sql: &str) {
    store.shared.database.writer().execute_batch(sql).unwrap();
}

/// Closes a store and opens it again: its index is in the table then.
async fn reopen(store: Embedded, directory: &Path) -> Embedded {
    store.close().await;
    Embedded::open(directory, Options::default()).unwrap()
}

/// A watch ends where records are missing, though it is given the history in steps that end before the last.
#[tokio::test]
async fn watch_ends_at_a_gap_of_the_history() {
    for (size, records) in [(10, 6), (1 << 20, 12)] {
        for gap in [2, 4] {
            let directory = tempfile::tempdir().unwrap();
            let store = Embedded::open(directory.path(), Options::default()).unwrap();
            for number in 0..records {
                let key = format!("/{number}");
                store.create(key.as_bytes(), vec![b'x'; size].into(), None).await.unwrap();
            }
            execute(&store, &format!("DELETE FROM history WHERE revision = {gap}"));
            let mut watch = store.watch(b"/", Revision::INITIAL).await.unwrap();
            let mut seen = Vec::new();
            let error = loop {
                match watch.next().await {
                    Ok(response) => seen.extend(response.events.iter().map(|e| e.revision.0)),
                    Err(error) => break error,
                }
            };
            assert!(seen.iter().all(|revision| *revision < gap), "{size} {gap}: {seen:?}");
            let why = format!("the record of revision {gap} is missing");
            assert_eq!(error, Error::Corrupt(why), "{size} {gap}");
            store.close().await;
        }
    }
}

/// Rows of the index that lead to another record of the same key are refused: the record itself is whole.
#[tokio::test]
async fn damaged_row_of_the_index_is_refused() {
    for damage in [
        // An older version of the key, which an honest row would name as well.
        "DELETE FROM keys WHERE revision = 3; UPDATE keys SET revision = 3 WHERE revision = 4",
        "UPDATE keys SET created = 0 WHERE revision = 4",
        "UPDATE keys SET checksum = checksum + 1 WHERE revision = 4",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path(), Options::default()).unwrap();
        let mut last = store.create(b"/a", "0".into(), None).await.unwrap();
        for value in ["1", "2"] {
            last = store.update(b"/a", value.into(), last, None).await.unwrap();
        }
        let store = reopen(store, directory.path()).await;
        assert_eq!(store.get(b"/a", None).await.unwrap().entry.unwrap().value, "2");
        execute(&store, damage);
        let read = store.get(b"/a", None).await;
        assert!(matches!(read, Err(Error::Corrupt(_))), "{damage}: {read:?}");
        let listed = store.range(b"/", RangeOptions::default()).await;
        assert!(matches!(listed, Err(Error::Corrupt(_))), "{damage}: {listed:?}");
        let written = store.update(b"/a", "3".into(), last, None).await;
        assert!(written.is_err(), "{damage}: {written:?}");
        store.close().await;
    }
}

/// A key has one expiry, that of its last write: the table does not grow with renewals.
#[tokio::test]
async fn write_of_a_key_replaces_its_expiry() {
    let hour = Some(Duration::from_secs(3600));
    let store = Embedded::memory(Options::default()).unwrap();
    let mut last = store.create(b"/lease", "0".into(), hour).await.unwrap();
    store.create(b"/other", "0".into(), hour).await.unwrap();
    for (ttl, expected) in [(hour, 2), (hour, 2), (None, 1), (None, 1), (hour, 2)] {
        last = store.update(b"/lease", "1".into(), last, ttl).await.unwrap();
        assert_eq!(count(&store, "expiring").await, expected, "{ttl:?}");
    }
    store.delete(b"/lease", last).await.unwrap();
    assert_eq!(count(&store, "expiring").await, 1);
    store.close().await;
}

/// Rows of the expiries have no checksum: one that does not fit the present record deletes nothing.
#[tokio::test]
async fn expiry_of_another_record_deletes_nothing() {
    const HOUR: Duration = Duration::from_secs(3600);
    let directory = tempfile::tempdir().unwrap();
    let open_at = |wall| {
        let clock = ManualClock::new(UNIX_EPOCH + wall);
        let options = Options { clock: clock.clock(), ..Options::default() };
        Embedded::open(directory.path(), options).unwrap()
    };
    let store = open_at(HOUR);
    // The expiry of a state that was written over: of one that was to end, and of one that was not.
    let ended = store.create(b"/renewed", "0".into(), Some(HOUR)).await.unwrap();
    store.update(b"/renewed", "1".into(), ended, None).await.unwrap();
    let past = store.create(b"/written", "0".into(), None).await.unwrap();
    store.update(b"/written", "1".into(), past, None).await.unwrap();
    let immortal = store.create(b"/immortal", "0".into(), None).await.unwrap();
    let later = store.create(b"/later", "0".into(), Some(100 * HOUR)).await.unwrap();
    let gone = store.create(b"/gone", "0".into(), None).await.unwrap();
    let gone = store.delete(b"/gone", gone).await.unwrap();
    store.create(b"/due", "0".into(), Some(HOUR)).await.unwrap();
    execute(
        &store,
        &format!(
            "INSERT INTO expiring SELECT expires, revision FROM history WHERE revision = {ended}"
        ),
    );
    for Revision(revision) in [past, immortal, later, gone, Revision(999)] {
        execute(&store, &format!("INSERT INTO expiring VALUES (1, {revision})"));
    }
    store.close().await;
    let store = open_at(10 * HOUR);
    let looked_at = async { while count(&store, "expiring").await > 1 {} };
    tokio::time::timeout(PATIENCE, looked_at).await.expect("they are due");
    let left = store.range(b"/", RangeOptions::default()).await.unwrap().entries;
    let left: Vec<_> = left.iter().map(|entry| &entry.key[..]).collect();
    let expected: [&[u8]; 4] = [b"/immortal", b"/later", b"/renewed", b"/written"];
    assert_eq!(left, expected);
    store.close().await;
}
