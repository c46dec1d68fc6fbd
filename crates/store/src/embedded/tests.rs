//! Tests that need the engine's internals: full and hanging disks, threads that end, sweeping.

mod damage;

use std::time::UNIX_EPOCH;

use kevel_clock::{ManualClock, Stopwatch};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_full_disk_fails_writes_and_passes() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    store.create(b"/a", "1".into(), None).await.unwrap();
    let limit = |pages: u32| {
        let writer = store.shared.database.writer();
        writer.pragma_update(None, "max_page_count", pages).unwrap();
    };
    // Never below the pages in use: this leaves no room at all.
    limit(1);
    let mut written = 0;
    let error = loop {
        assert!(written < 10_000, "it is never full");
        match store.create(format!("/{written}").as_bytes(), vec![0; 9000].into(), None).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Unavailable(why) if why.contains("full")), "{error:?}");
    assert_eq!(store.health().await, Err(error));
    assert_eq!(store.count(b"/").await.unwrap(), 1 + written, "reads go on");
    limit(1 << 20);
    let recovered = async { while store.health().await.is_err() {} };
    tokio::time::timeout(PATIENCE, recovered).await.expect("it tries again by itself");
    let revision = store.create(b"/b", "1".into(), None).await.unwrap();
    assert_eq!(revision, Revision(3 + written), "a failed write takes no revision");
    store.close().await;
    check(directory.path()).unwrap();
}

#[tokio::test]
async fn what_was_compacted_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    let mut last = store.create(b"/kept", "0".into(), None).await.unwrap();
    let gone = store.create(b"/gone", "0".into(), None).await.unwrap();
    store.delete(b"/gone", gone).await.unwrap();
    for turn in 0..100 {
        last = store.update(b"/kept", format!("{turn}").into(), last, None).await.unwrap();
    }
    store.compact(last).await.unwrap();
    let records = || -> i64 {
        let count = |c: &Connection| {
            c.query_row("SELECT count(*) FROM history", [], |row| row.get(0)).map_err(sqlite)
        };
        store.shared.database.read(count).unwrap()
    };
    // The newest record and the one it superseded: the newest holds the store's revision.
    let swept = async {
        while records() > 2 {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(PATIENCE, swept).await.expect("sweeping goes on by itself");
    assert_eq!(store.get(b"/kept", None).await.unwrap().entry.unwrap().value, "99");
    store.close().await;
    let report = check(directory.path()).unwrap();
    assert_eq!((report.revision, report.compacted, report.keys), (last, last, 1));
}

/// A client that lists and then watches has at least one interval to do so: only revisions up to the tick before are
/// compacted.
#[tokio::test]
async fn automatic_compaction_keeps_what_is_younger_than_an_interval() {
    const INTERVAL: Duration = Duration::from_millis(200);
    let options = Options { compaction_interval: Some(INTERVAL), ..Options::default() };
    let store = Embedded::memory(options).unwrap();
    let mut last = store.create(b"/a", "0".into(), None).await.unwrap();
    let mut begun = std::collections::BTreeMap::new();
    let mut compactions = std::collections::BTreeSet::new();
    let compacting = async {
        while compactions.len() < 4 {
            let before = kevel_clock::monotonic_now();
            last = store.update(b"/a", "1".into(), last, None).await.unwrap();
            begun.insert(last, before);
            let compacted = store.compacted_revision();
            if let Some(written) = begun.get(&compacted) {
                assert!(written.elapsed() >= INTERVAL, "{compacted} after {:?}", written.elapsed());
            }
            compactions.insert(compacted);
        }
    };
    tokio::time::timeout(PATIENCE, compacting).await.expect("it compacts by itself");
    store.close().await;
}

#[tokio::test]
async fn what_expires_while_closed_is_deleted_after_opening() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    let ttl = Some(Duration::from_millis(1));
    store.create(b"/immortal", "1".into(), None).await.unwrap();
    store.close().await;
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    let mut watch = store.watch(b"/mortal", Revision(2)).await.unwrap();
    store.create(b"/mortal", "1".into(), ttl).await.unwrap();
    store.close().await;
    drop(watch);
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    watch = store.watch(b"/mortal", Revision(3)).await.unwrap();
    let deleted = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    assert!(deleted.events[0].current.is_none());
    store.close().await;
}

#[tokio::test]
async fn more_versions_than_a_generation_are_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(directory.path(), Options::default()).unwrap());
    let writers = (0..64u32).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for turn in 0..200u32 {
                let key = format!("/{:x}", (turn * 64 + writer).wrapping_mul(0x9e37_79b9));
                store.create(key.as_bytes(), key.clone().into(), None).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let expect_all = |list: RangeResponse| {
        assert_eq!(list.entries.len(), 12_800);
        assert!(list.entries.iter().all(|entry| entry.key == entry.value));
        assert!(list.entries.is_sorted_by(|a, b| a.key < b.key));
    };
    expect_all(store.range(b"/", RangeOptions::default()).await.unwrap());
    store.close().await;
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    expect_all(store.range(b"/", RangeOptions::default()).await.unwrap());
    store.close().await;
    assert_eq!(check(directory.path()).unwrap().keys, 12_800);
}

#[tokio::test]
async fn a_disk_that_hangs_is_noticed_in_time() {
    const DEADLINE: Duration = Duration::from_millis(200);
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(directory.path(), Options::default()).unwrap());
    let probe = crate::Probe::new(store.clone());
    assert_eq!(probe.check(DEADLINE).await, Ok(()));
    // Holds the writer's connection, as a hanging disk would.
    let (hang, hanging) = std::sync::mpsc::channel::<()>();
    let held = std::thread::spawn({
        let shared = store.shared.clone();
        move || {
            let connection = shared.database.writer();
            let _ = hanging.recv();
            drop(connection);
        }
    });
    let red = async {
        loop {
            match probe.check(DEADLINE).await {
                Ok(()) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(error) => return error,
            }
        }
    };
    let error = tokio::time::timeout(PATIENCE, red).await.expect("it stays green");
    assert_eq!(error, Error::Unavailable("no answer within 200ms".into()));
    let write = tokio::spawn({
        let store = store.clone();
        async move { store.create(b"/a", "1".into(), None).await }
    });
    // While the call is overdue, probes fail at once.
    let asked = Stopwatch::start();
    for _ in 0..100 {
        assert!(probe.check(DEADLINE).await.is_err());
    }
    assert!(asked.elapsed() < 50 * DEADLINE);
    drop(hang);
    held.join().unwrap();
    assert_eq!(write.await.unwrap(), Ok(Revision(2)));
    let green = async { while probe.check(DEADLINE).await.is_err() {} };
    tokio::time::timeout(PATIENCE, green).await.expect("it stays red");
    store.close().await;
}

#[tokio::test]
async fn a_writer_that_panics_fails_everything_and_says_so() {
    let store = Embedded::memory(Options::default()).unwrap();
    store.create(b"/a", "1".into(), None).await.unwrap();
    let mut watch = store.watch(b"/", Revision(2)).await.unwrap();
    store.shared.queue.push(Request::Panic).unwrap();
    let why = "store unavailable: the store's writer has panicked: told to".to_owned();
    let said = async {
        while store.health().await.map_err(|error| error.to_string()) != Err(why.clone()) {}
    };
    tokio::time::timeout(PATIENCE, said).await.expect("it does not say so");
    let refused = store.create(b"/b", "1".into(), None).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(watch.next().await.is_err(), "watches end");
    assert_eq!(store.count(b"/").await, Ok(1), "reads go on");
}

#[tokio::test]
async fn a_read_that_fails_ends_its_batch_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    let revision = store.create(b"/a", vec![0; 50_000].into(), None).await.unwrap();
    // With an empty cache, the log cannot be read.
    store.shared.database.writer().execute_batch("PRAGMA shrink_memory").unwrap();
    let log = directory.path().join("kevel.db-wal");
    let content = std::fs::read(&log).unwrap();
    {
        let connection = store.shared.database.writer();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut batch =
            batch::Batch::new(&connection, &store.shared.recent, &store.shared.clock, revision.0);
        let create = Operation::Create { value: "1".into(), ttl: None };
        batch.apply(&"/b".into(), &create).unwrap().unwrap();
        std::fs::File::options().write(true).open(&log).unwrap().set_len(0).unwrap();
        let update = Operation::Update { value: "1".into(), ttl: None, expected: revision };
        let failed = batch.apply(&"/a".into(), &update);
        assert!(failed.is_err(), "the batch goes on without a transaction: {failed:?}");
        std::fs::write(&log, content).unwrap();
        assert!(connection.is_autocommit());
    }
    assert_eq!(store.create(b"/c", "1".into(), None).await, Ok(revision.next()));
    assert_eq!(store.get(b"/b", None).await.unwrap().entry, None);
    store.close().await;
    assert_eq!(check(directory.path()).unwrap().revision, revision.next());
}

#[tokio::test]
async fn clock_jumps_do_not_change_times_to_live() {
    const HOUR: Duration = Duration::from_secs(3600);
    let directory = tempfile::tempdir().unwrap();
    let open_at = |wall| {
        let clock = ManualClock::new(UNIX_EPOCH + wall);
        let options = Options { clock: clock.clock(), ..Options::default() };
        (Embedded::open(directory.path(), options).unwrap(), clock)
    };
    let now = 500_000 * HOUR;
    let ttl = Some(HOUR);
    // The wall clock is ten years ahead, and is corrected while the store is closed.
    let (store, _) = open_at(now + 87_600 * HOUR);
    store.create(b"/hour", "1".into(), ttl).await.unwrap();
    store.close().await;
    let (store, clock) = open_at(now);
    let left = async |store: &Embedded, key: &'static [u8]| {
        let page = store.page(Revision(store.shared.current()), None).await.unwrap();
        page.into_iter().find(|item| item.key == key).and_then(|item| item.ttl).unwrap()
    };
    assert_eq!(left(&store, b"/hour").await, HOUR);
    // Later keys expire after their time to live too, and in order.
    store.create(b"/later", "1".into(), ttl).await.unwrap();
    assert!(left(&store, b"/later").await >= left(&store, b"/hour").await);
    store.create(b"/soon", "1".into(), Some(HOUR / 2)).await.unwrap();
    clock.advance(HOUR / 2);
    let gone = async { while store.count(b"/soon").await.unwrap() > 0 {} };
    tokio::time::timeout(PATIENCE, gone).await.expect("it never expires");
    assert_eq!(store.count(b"/").await.unwrap(), 2);
    store.close().await;
    // Time that passed while the store was closed counts.
    let (store, _) = open_at(now + 87_602 * HOUR);
    let gone = async { while store.count(b"/").await.unwrap() > 0 {} };
    tokio::time::timeout(PATIENCE, gone).await.expect("it never expires");
    store.close().await;
    assert_eq!(check(directory.path()).unwrap().damaged, []);
}

/// Updates a few objects repeatedly, compacting all the time. Returns the size of the database file after each round.
async fn sizes_under_updates(store: &Embedded, directory: &Path, rounds: usize) -> Vec<u64> {
    const OBJECTS: usize = 20;
    const UPDATES: usize = 1000;
    let (mut revisions, mut sizes) = ([Revision(0); OBJECTS], Vec::new());
    for round in 0..rounds {
        for turn in 0..UPDATES {
            let place = turn % OBJECTS;
            let (key, value) = (format!("/{place}"), vec![b'x'; 2000 + 97 * place + turn % 50]);
            let written = match revisions[place] {
                Revision(0) => store.create(key.as_bytes(), value.into(), None).await,
                last => store.update(key.as_bytes(), value.into(), last, None).await,
            };
            revisions[place] = written.unwrap();
        }
        let last = store.current_revision().await.unwrap();
        store.compact(last).await.unwrap();
        let records = |c: &Connection| {
            c.query_row("SELECT count(*) FROM history", [], |row| row.get::<_, i64>(0))
                .map_err(sqlite)
        };
        // The newest record, and the records that are not superseded or only by the newest.
        let kept = OBJECTS as i64 + 1;
        let swept = async {
            while store.shared.database.read(records).unwrap() > kept {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, swept).await.expect("sweeping does not come to an end");
        sizes.push(std::fs::metadata(directory.join(DATABASE_FILE)).unwrap().len());
        println!("round {round}: {} bytes", sizes.last().unwrap());
    }
    sizes
}

#[tokio::test]
async fn updates_reuse_space_and_defragmentation_shrinks_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    let sizes = sizes_under_updates(&store, directory.path(), 8).await;
    // A round writes 3 MB. Freed pages are reused: after some rounds the file stops growing.
    let (early, late) = (sizes[..4].iter().max().unwrap(), sizes[4..].iter().max().unwrap());
    assert!(late <= &(early + (2 << 20)), "{sizes:?}");
    let log = std::fs::metadata(directory.path().join("kevel.db-wal")).unwrap().len();
    assert!(log <= 64 << 20, "{log}");
    store.close().await;
    let before = std::fs::metadata(directory.path().join(DATABASE_FILE)).unwrap().len();
    let after = defragment(directory.path()).unwrap();
    assert_eq!(after, std::fs::metadata(directory.path().join(DATABASE_FILE)).unwrap().len());
    assert!(after < before && after < 1 << 20, "{before} {after}");
    let report = check(directory.path()).unwrap();
    assert_eq!((report.keys, report.damaged.len()), (20, 0));
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    assert_eq!(store.current_revision().await.unwrap(), report.revision);
    store.close().await;
}
