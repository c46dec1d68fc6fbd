//! Tests of the state machine: every order of steps up to some length, and long random ones.
//!
//! A model of a store is written to, watched, compacted and restored from a backup; loads read it at one moment and
//! answer at another. After every step, the snapshots of the caches and the events of the watchers are compared with
//! the model.

mod backlog;
mod stale_progress;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::super::{
    CacheError, Decode, Delivery, JsonDecode, KeyOrder, Object, Selection, Watcher, key_below,
};
use super::*;
use crate::embedded::{Embedded, Options};
use crate::{Entry, Event, Unreadable};

const PREFIXES: [&str; 2] = ["/registry/pods/", "/registry/things/"];
const NAMES: [&str; 2] = ["a", "b"];

/// One step of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// An object of a resource is written.
    Write(usize),
    /// The watch delivers one more revision.
    Deliver,
    /// The watch delivers one more revision, with a value that is unavailable.
    Obscure,
    /// The watch delivers all revisions, and reports progress.
    Progress,
    /// The watch's next revision is compacted: the epoch ends.
    Lose,
    /// The watch is opened again.
    Open,
    /// A load reads the store: the oldest or the newest of those that have not.
    Read { newest: bool },
    /// A load answers: the oldest or the newest of those that have read.
    Answer { newest: bool },
    /// A resource's cache is replaced.
    Replace,
    /// A client lists a resource and watches from there.
    Watch(usize),
    /// The store is restored from a backup, two writes ago.
    Restore,
}

const STEPS: [Step; 15] = [
    Step::Write(0),
    Step::Write(1),
    Step::Deliver,
    Step::Obscure,
    Step::Progress,
    Step::Lose,
    Step::Open,
    Step::Read { newest: false },
    Step::Read { newest: true },
    Step::Answer { newest: false },
    Step::Answer { newest: true },
    Step::Replace,
    Step::Watch(0),
    Step::Watch(1),
    Step::Restore,
];

struct Watching {
    watcher: Watcher,
    resource: usize,
    /// Revisions of the delivered events.
    told: Vec<u64>,
    start: u64,
}

struct World {
    engine: Arc<dyn Engine>,
    followers: Followers,
    troubles: Arc<FeedFailures>,
    progress: signal::Receiver<Progress>,
    commands: mpsc::UnboundedSender<Command>,
    _inbox: mpsc::UnboundedReceiver<Command>,
    caches: [Arc<Cache>; 2],
    /// Replaced caches, which readers may still hold.
    replaced: Vec<Arc<Cache>>,
    history: Vec<Event>,
    /// Revision up to which no restore has changed the history.
    unchanged: u64,
    /// Revision that the watch has delivered, if it is open.
    position: Option<u64>,
    unread: Vec<Load>,
    read: Vec<(Load, Snapshot)>,
    watching: Vec<Watching>,
}

impl World {
    /// An empty store, two caches, and an open watch.
    fn new(engine: &Arc<dyn Engine>, limit: BacklogLimit) -> World {
        let (announced, progress) = signal::channel(Progress::default());
        let (commands, inbox) = mpsc::unbounded_channel();
        let troubles = Arc::new(FeedFailures::default());
        let make = |resource: usize| cache(resource, engine, &progress, &commands, &troubles);
        let caches = [make(0), make(1)];
        let mut world = World {
            engine: engine.clone(),
            followers: Followers::new(announced, limit),
            troubles: troubles.clone(),
            caches,
            replaced: Vec::new(),
            progress,
            commands,
            _inbox: inbox,
            history: Vec::new(),
            unchanged: u64::MAX,
            position: None,
            unread: Vec::new(),
            read: Vec::new(),
            watching: Vec::new(),
        };
        for cache in world.caches.clone() {
            assert!(world.followers.add(cache).is_none(), "nothing is loaded before it is heard");
        }
        world.take(Step::Open);
        world
    }

    fn revision(&self) -> u64 {
        1 + self.history.len() as u64
    }

    /// Takes a step. Returns whether it was possible.
    fn take(&mut self, step: Step) -> bool {
        match step {
            Step::Write(resource) => self.write(resource),
            Step::Deliver => return self.deliver(None),
            Step::Obscure => return self.deliver(Some(Unreadable::Unavailable("a".into()))),
            Step::Progress => {
                while self.deliver(None) {}
                let Some(position) = self.position else { return false };
                self.hear(Vec::new(), position);
            }
            Step::Lose => {
                if self.position.take().is_none() {
                    return false;
                }
                self.followers.end();
            }
            Step::Open => {
                if self.position.is_some() {
                    return false;
                }
                let start = self.revision();
                self.position = Some(start);
                self.order(|followers| followers.begin(Revision(start)));
            }
            Step::Read { newest } => {
                let Some(load) = pick(&mut self.unread, newest) else { return false };
                let snapshot = self.snapshot(load.cache.prefix(), self.revision());
                self.read.push((load, snapshot));
            }
            Step::Answer { newest } => {
                let Some((load, snapshot)) = pick(&mut self.read, newest) else { return false };
                if !self.followers.loaded(&load, snapshot) {
                    self.unread.push(load);
                }
            }
            Step::Replace => {
                let (commands, progress) = (self.commands.clone(), self.progress.clone());
                let new = cache(0, &self.engine, &progress, &commands, &self.troubles);
                let old = std::mem::replace(&mut self.caches[0], new.clone());
                old.end(State::Replaced);
                self.replaced.push(old);
                self.order(|followers| followers.add(new).into_iter().collect());
            }
            Step::Watch(resource) => return self.watch(resource),
            Step::Restore => {
                if self.history.len() < 2 || self.position.is_some() {
                    return false;
                }
                self.history.truncate(self.history.len() - 2);
                self.unchanged = self.unchanged.min(self.revision());
                // Events delivered before are of another history.
                self.watching.clear();
            }
        }
        true
    }

    fn order(&mut self, orders: impl FnOnce(&mut Followers) -> Vec<Load>) {
        let orders = orders(&mut self.followers);
        self.unread.extend(orders);
    }

    fn hear(&mut self, events: Vec<Event>, reached: u64) {
        let behind = self.followers.hear(events, Revision(reached));
        self.unread.extend(behind.into_iter().map(|(load, _)| load));
    }

    fn write(&mut self, resource: usize) {
        let revision = Revision(self.revision() + 1);
        let key = format!("{}{}", PREFIXES[resource], NAMES[self.history.len() % 2]);
        let before = self.history.iter().rfind(|event| event.key == key.as_bytes());
        let previous = before.and_then(|event| event.current.clone());
        let deletes = previous.is_some() && self.history.len() % 3 == 2;
        let current = (!deletes).then(|| Entry {
            key: key.clone().into(),
            value: r#"{"metadata":{"name":"x"}}"#.into(),
            create_revision: previous.as_ref().map_or(revision, |entry| entry.create_revision),
            mod_revision: revision,
        });
        self.history.push(Event { key: key.into(), revision, current, previous, unreadable: None });
    }

    fn deliver(&mut self, unreadable: Option<Unreadable>) -> bool {
        let Some(position) = self.position.filter(|position| *position < self.revision()) else {
            return false;
        };
        let event = Event { unreadable, ..self.history[position as usize - 1].clone() };
        self.position = Some(position + 1);
        self.hear(vec![event], position + 1);
        true
    }

    /// Objects of a resource in the model at a revision.
    fn state(&self, prefix: &str, revision: u64) -> BTreeMap<String, u64> {
        let mut state = BTreeMap::new();
        for event in self.history.iter().take_while(|event| event.revision.0 <= revision) {
            let Some(key) = key_below(prefix, &event.key) else { continue };
            match &event.current {
                Some(entry) => state.insert(key.to_owned(), entry.mod_revision.0),
                None => state.remove(key),
            };
        }
        state
    }

    fn snapshot(&self, prefix: &str, revision: u64) -> Snapshot {
        let decode = JsonDecode { order: KeyOrder::Struct };
        let mut snapshot = Snapshot::default();
        for (key, revision) in self.state(prefix, revision) {
            let revision = Revision(revision);
            let wire = decode.decode(&r#"{"metadata":{"name":"x"}}"#.into(), revision);
            snapshot.insert(Arc::new(Object::new(&key, revision, wire)));
        }
        snapshot.at(Revision(revision))
    }

    /// Lists a resource and watches it from there: all objects, and one by name.
    fn watch(&mut self, resource: usize) -> bool {
        let cache = &self.caches[resource];
        if *cache.state.borrow() != State::Live {
            return false;
        }
        let after = cache.latest().revision();
        for fields in ["", "metadata.name=a"] {
            let selection = Selection { fields: fields.parse().unwrap(), ..Selection::default() };
            let watcher = match now(cache.watch(selection, after)) {
                Some(Ok(watcher)) => watcher,
                refused => panic!("a watch from a list's revision: {refused:?}"),
            };
            let (start, told) = (after.0, Vec::new());
            self.watching.push(Watching { watcher, resource, told, start });
        }
        true
    }

    /// Checks the invariants.
    fn check(&mut self) {
        for cache in self.caches.iter().chain(&self.replaced) {
            let follows = cache.current.load().follows(*self.progress.borrow());
            let snapshot = cache.latest();
            if follows {
                assert!(snapshot.revision.0 <= self.revision(), "a list of the future");
                assert!(snapshot.revision.0 >= self.position.unwrap(), "it is behind the stream");
            } else if snapshot.revision.0 > self.unchanged {
                // The cache shows a replaced history, and no progress is announced for it.
                continue;
            }
            let shown: BTreeMap<String, u64> =
                snapshot.range("", None).map(|o| (o.key().to_owned(), o.revision().0)).collect();
            let expected = self.state(cache.prefix(), snapshot.revision.0);
            assert_eq!(shown, expected, "{} at {}", cache.prefix(), snapshot.revision);
        }
        let mut watching = std::mem::take(&mut self.watching);
        watching.retain_mut(|watching| self.follow(watching));
        self.watching = watching;
    }

    /// Reads a watcher's events. Returns whether the watch goes on.
    fn follow(&self, watching: &mut Watching) -> bool {
        let Watching { watcher, resource, told, start } = watching;
        let ended = loop {
            let mut seen: Vec<Delivery> = Vec::new();
            let next = now(watcher.next(&mut seen));
            told.extend(seen.iter().map(|delivery| delivery.event.revision().0));
            match next {
                Some(Ok(())) => {}
                Some(Err(CacheError::Expired { .. } | CacheError::Closed)) => break true,
                Some(Err(error)) => panic!("{error}"),
                None => break false,
            }
        };
        let caught_up = watcher.caught_up().0.max(told.last().copied().unwrap_or(0));
        let named = watcher.selection().fields.requires_exact_match("metadata.name");
        let concerns = |event: &&Event| {
            let key = key_below(PREFIXES[*resource], &event.key);
            key.is_some_and(|key| named.is_none_or(|name| name == key))
        };
        let expected = self.history.iter().filter(concerns).map(|event| event.revision.0);
        let expected: Vec<u64> = expected.filter(|r| *r > *start && *r <= caught_up).collect();
        assert_eq!(*told, expected, "from {start}, as it says up to {caught_up}");
        !ended
    }
}

fn pick<T>(from: &mut Vec<T>, newest: bool) -> Option<T> {
    match newest {
        true => from.pop(),
        false => (!from.is_empty()).then(|| from.remove(0)),
    }
}

fn cache(
    resource: usize,
    engine: &Arc<dyn Engine>,
    progress: &signal::Receiver<Progress>,
    commands: &mpsc::UnboundedSender<Command>,
    troubles: &Arc<FeedFailures>,
) -> Arc<Cache> {
    let resource = Resource {
        prefix: PREFIXES[resource].to_owned(),
        decode: Arc::new(JsonDecode { order: KeyOrder::Struct }),
        fields: Arc::default(),
        indexed: Vec::new(),
    };
    let (progress, commands) = (progress.clone(), commands.clone());
    let troubles = troubles.clone();
    let (root, damage) = (b"/registry/"[..].into(), Arc::default());
    let engine = engine.clone();
    Arc::new(Cache::new(resource, engine, root, progress, commands, troubles, damage))
}

/// Result of a future that is ready now.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    // Without tokio's cooperative budget.
    match pin!(tokio::task::unconstrained(future)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Takes steps and checks the result; returns whether the last step was possible. Prefixes of the steps were checked
/// before.
fn replay(engine: &Arc<dyn Engine>, steps: &[Step], limit: BacklogLimit) -> bool {
    let _said_if_it_fails = Steps(steps);
    let mut world = World::new(engine, limit);
    let taken = steps.iter().map(|step| world.take(*step)).last().unwrap_or(true);
    world.check();
    taken
}

/// Prints the steps when a test fails.
struct Steps<'a>(&'a [Step]);

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("after {:?}", self.0);
        }
    }
}

fn engine() -> Arc<dyn Engine> {
    // Not used: the model is the store.
    Arc::new(Embedded::memory(Options::default()).unwrap())
}

/// Room for one event: a second one makes the load start over.
const TIGHT: BacklogLimit = BacklogLimit { events: 1, bytes: usize::MAX };

#[tokio::test]
async fn every_order_of_steps_keeps_the_promises() {
    use Step::*;
    let engine = engine();
    let both = [Read { newest: false }, Read { newest: false }];
    let live = [Answer { newest: false }, Answer { newest: false }];
    // From the start, from live and watched caches, and from caches that are reloaded.
    let cold: Vec<Step> = vec![Write(0)];
    let warm: Vec<Step> =
        [&[Write(0), Write(1)][..], &both, &live, &[Progress, Watch(0), Watch(1)]].concat();
    let again: Vec<Step> = [&warm[..], &[Write(0), Lose, Write(0), Open, Write(0)]].concat();
    let late: Vec<Step> = [&cold[..], &both, &[Lose, Write(0), Open]].concat();
    let mut taken = 0;
    for (beginning, depth) in [(cold, 5), (warm, 4), (again, 4), (late, 4)] {
        let mut open: Vec<Vec<Step>> = vec![Vec::new()];
        for _ in 0..depth {
            let mut longer = Vec::new();
            for path in &open {
                for step in STEPS {
                    let path = [&path[..], &[step]].concat();
                    let all = [&beginning[..], &path[..]].concat();
                    let limit = if taken % 2 == 0 { TIGHT } else { BacklogLimit::default() };
                    if replay(&engine, &all, limit) {
                        longer.push(path);
                        taken += 1;
                    }
                }
            }
            open = longer;
        }
    }
    println!("{taken} orders of steps");
    assert!(taken > 10_000);
}

#[tokio::test]
async fn long_random_orders_keep_the_promises_and_end_well() {
    let engine = engine();
    for seed in 1..=1500u64 {
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut roll = |sides: usize| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            (dice >> 33) as usize % sides
        };
        let steps: Vec<Step> = (0..60).map(|_| STEPS[roll(STEPS.len())]).collect();
        let limit = if seed % 3 == 0 { TIGHT } else { BacklogLimit::default() };
        let _said_if_it_fails = Steps(&steps);
        let mut world = World::new(&engine, limit);
        for step in &steps {
            world.take(*step);
            world.check();
        }
        // Without further steps, everything is loaded and shown.
        world.take(Step::Open);
        while world.take(Step::Read { newest: false }) {}
        while world.take(Step::Answer { newest: false }) {}
        world.take(Step::Progress);
        world.check();
        for cache in &world.caches {
            assert!(cache.current.load().follows(*world.progress.borrow()), "it follows");
            assert_eq!(cache.latest().revision.0, world.revision(), "and has come to the end");
        }
    }
}

#[tokio::test]
async fn a_load_older_than_the_stream_is_refused() {
    let mut world = World::new(&engine(), BacklogLimit::default());
    world.take(Step::Write(0));
    world.take(Step::Lose);
    world.take(Step::Open);
    let load = world.unread.pop().unwrap();
    let old = world.snapshot(load.cache.prefix(), 1);
    assert!(!world.followers.loaded(&load, old), "the stream began at 2");
    assert!(world.followers.expects(&load), "it is asked again");
    let current = world.snapshot(load.cache.prefix(), 2);
    assert!(world.followers.loaded(&load, current));
    assert!(!world.followers.expects(&load));
    world.check();
}
