//! A writing process is killed at random moments. Every acknowledged write must be there, and besides them only the
//! writes under way.
//!
//! `KEVEL_CRASH_ROUNDS` sets the number of kills.

// Test helpers may unwrap, too.
#![allow(clippy::unwrap_used)]

use std::{
    collections::HashMap,
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use kevel_store::{
    Engine, Error, Revision,
    embedded::{self, Embedded, Options},
};

const WRITERS: usize = 16;
const KEYS_PER_WRITER: usize = 8;
const DIRECTORY: &str = "KEVEL_CRASH_DIRECTORY";
const COMPACT: &str = "KEVEL_CRASH_COMPACT";

#[test]
fn acknowledged_writes_survive_a_kill() {
    let rounds = env::var("KEVEL_CRASH_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(20);
    let directory = tempfile::tempdir().unwrap();
    let mut dice = Dice::new();
    let mut model = Model::default();
    let mut acknowledged = 0;
    for round in 0..rounds {
        // Every other round is killed during compaction and folding of the index as well.
        let compact = round % 2 == 1;
        let kill_after = 1 + dice.roll(if round % 5 == 4 { 6000 } else { 600 });
        acknowledged += write_and_kill(directory.path(), compact, kill_after, &mut model);
        verify(directory.path(), &mut model);
    }
    println!("{rounds} kills, {acknowledged} acknowledged writes, none lost");
}

/// The process that is killed: each of its writers writes its own keys in turn and reports each acknowledged write as
/// `ack revision key value`.
#[test]
#[ignore = "runs as the child of the crash test"]
fn child() {
    let Some(directory) = env::var_os(DIRECTORY) else { return };
    let compaction_interval = env::var_os(COMPACT).map(|_| Duration::from_millis(20));
    let options = Options { compaction_interval, ..Options::default() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Arc::new(Embedded::open(Path::new(&directory), options).unwrap());
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| tokio::spawn(write_forever(store.clone(), writer))).collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

async fn write_forever(store: Arc<Embedded>, writer: usize) {
    for turn in 0.. {
        let key = format!("/{writer}/{}", turn % KEYS_PER_WRITER);
        let current = store.get(key.as_bytes(), None).await.unwrap().entry;
        // The value is the number of the write of this key, so the next one is known in advance.
        let number = current.as_ref().map_or(0, |entry| number_of(&entry.value)) + 1;
        let outcome = match current {
            None => store.create(key.as_bytes(), value(number).into(), None).await,
            Some(entry) => {
                store.update(key.as_bytes(), value(number).into(), entry.mod_revision, None).await
            }
        };
        let revision = outcome.unwrap();
        println!("ack {revision} {key} {number}");
    }
}

fn value(number: u64) -> String {
    format!("{number:<2048}")
}

fn number_of(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().trim_end().parse().unwrap()
}

/// Expected contents of the store: the last write of each key, by revision and number.
#[derive(Default)]
struct Model {
    keys: HashMap<String, (u64, u64)>,
    newest: u64,
}

fn write_and_kill(directory: &Path, compact: bool, kill_after: u64, model: &mut Model) -> u64 {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture"]).env(DIRECTORY, directory);
    if compact {
        command.env(COMPACT, "1");
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut acknowledged = 0;
    // The pipe is read to its end: writes reported before the kill count.
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let fields: Vec<_> = line.split(' ').collect();
        let ["ack", revision, key, number] = fields[..] else { continue };
        let revision = revision.parse().unwrap();
        model.keys.insert(key.into(), (revision, number.parse().unwrap()));
        model.newest = model.newest.max(revision);
        acknowledged += 1;
        if acknowledged == kill_after {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(!status.success() && acknowledged >= kill_after, "the child ended by itself");
    acknowledged
}

fn verify(directory: &Path, model: &mut Model) {
    let report = embedded::check(directory).unwrap();
    assert!(report.revision.0 >= model.newest, "revision {} of {}", report.revision, model.newest);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Embedded::open(directory, Options::default()).unwrap();
        for (key, known) in &mut model.keys {
            let entry = store.get(key.as_bytes(), None).await.unwrap().entry.unwrap();
            let found = (entry.mod_revision.0, number_of(&entry.value));
            let in_flight = found.0 > known.0 && found.1 == known.1 + 1;
            assert!(found == *known || in_flight, "{key}: {found:?} instead of {known:?}");
            assert_eq!(entry.value, value(found.1));
            *known = found;
        }
        // The history agrees, without a gap.
        let after = report.compacted.max(Revision(1));
        let mut watch = store.watch(b"/", after).await.unwrap();
        let mut next = after.0 + 1;
        while next <= report.revision.0 {
            for event in watch.next().await.unwrap().events {
                assert_eq!(event.revision.0, next);
                next += 1;
            }
        }
        assert!(matches!(Embedded::open(directory, Options::default()), Err(Error::Locked(_))));
        store.close().await;
    });
}

struct Dice(u64);

impl Dice {
    fn new() -> Dice {
        let seed = kevel_clock::Clock::system()
            .now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_nanos();
        println!("seed {seed}");
        Dice(seed as u64 | 1)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
