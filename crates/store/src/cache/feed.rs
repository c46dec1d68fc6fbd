//! One watch on the engine, for all caches.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch as signal};
use tokio::task::JoinHandle;

use super::log::Log;
use super::snapshot::Placed;
use super::{Cache, Event, Object, Resource, Snapshot, State, key_below, load};
use crate::{Engine, Error, Revision, Watch};

/// How long a failed watch or load waits before it is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// How often watchers that have gone away are forgotten.
const SWEEP: Duration = Duration::from_secs(30);

/// The caches of all resources below one prefix.
pub struct Caches {
    engine: Arc<dyn Engine>,
    commands: mpsc::UnboundedSender<Command>,
    caches: Mutex<BTreeMap<String, Arc<Cache>>>,
    progress: signal::Receiver<Revision>,
    task: JoinHandle<()>,
}

/// What the feed is told to do.
#[derive(Debug)]
pub(super) enum Command {
    Add(Arc<Cache>),
    Remove(String),
    Loaded {
        cache: Arc<Cache>,
        snapshot: Snapshot,
    },
    /// Somebody waits for the engine to say how far it is.
    Progress,
}

impl Caches {
    /// Starts to follow the engine. Must be called within a tokio runtime.
    pub fn start(engine: Arc<dyn Engine>, root: &str) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (announce, progress) = signal::channel(Revision::default());
        let feed = Feed {
            engine: engine.clone(),
            root: root.to_owned(),
            commands: commands.clone(),
            inbox,
            announce,
            followers: BTreeMap::new(),
        };
        let task = tokio::spawn(feed.run());
        Caches { engine, commands, caches: Mutex::default(), progress, task }
    }

    /// The cache of a resource, made if there is none; it loads in the background.
    pub fn add(&self, resource: Resource) -> Arc<Cache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = resource.prefix.clone();
        caches.entry(prefix).or_insert_with(|| self.make(resource)).clone()
    }

    /// A new cache in the place of a resource's old one, whose watchers end. Who reads the old one
    /// at this moment may go on doing so.
    pub fn replace(&self, resource: Resource) -> Arc<Cache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = resource.prefix.clone();
        let cache = self.make(resource);
        if let Some(old) = caches.insert(prefix, cache.clone()) {
            old.end(State::Replaced);
        }
        cache
    }

    fn make(&self, resource: Resource) -> Arc<Cache> {
        let (engine, progress) = (self.engine.clone(), self.progress.clone());
        let cache = Arc::new(Cache::new(resource, engine, progress, self.commands.clone()));
        let _ = self.commands.send(Command::Add(cache.clone()));
        cache
    }

    /// Ends a resource's cache and its watchers.
    pub fn remove(&self, prefix: &str) {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = caches.remove(prefix) {
            cache.close();
            let _ = self.commands.send(Command::Remove(prefix.to_owned()));
        }
    }

    /// The revision up to which all caches show everything.
    pub fn progress(&self) -> Revision {
        *self.progress.borrow()
    }
}

impl std::fmt::Debug for Caches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caches").field("progress", &self.progress()).finish_non_exhaustive()
    }
}

impl Drop for Caches {
    fn drop(&mut self) {
        self.task.abort();
        let caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.values().for_each(|cache| cache.close());
    }
}

struct Feed {
    engine: Arc<dyn Engine>,
    root: String,
    commands: mpsc::UnboundedSender<Command>,
    inbox: mpsc::UnboundedReceiver<Command>,
    announce: signal::Sender<Revision>,
    followers: BTreeMap<String, Follower>,
}

/// A cache, and where it stands in the stream.
struct Follower {
    cache: Arc<Cache>,
    /// What came while it was still loading.
    waiting: Option<Vec<crate::Event>>,
    /// What it was loaded with: it has seen everything up to here.
    loaded: Revision,
}

impl Feed {
    async fn run(mut self) {
        loop {
            match self.follow().await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "the store's watch ended; caches are loaded anew")
                }
            }
            tokio::time::sleep(RETRY).await;
            // What was missed is not known: everybody starts over.
            let caches: Vec<_> = self.followers.values().map(|f| f.cache.clone()).collect();
            caches.into_iter().for_each(|cache| self.load(cache));
        }
    }

    /// Follows the engine until it fails, or nobody is left to follow it for.
    async fn follow(&mut self) -> Result<(), Error> {
        let start = self.engine.current_revision().await?;
        let mut watch = self.engine.watch(self.root.as_bytes(), start).await?;
        self.reached(start);
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                biased;
                response = watch.next() => {
                    let response = response?;
                    // Some engines say how far they are before they tell what happened.
                    let told = !response.events.is_empty() || self.engine.reports_progress();
                    self.hand_out(response.events);
                    if told {
                        self.reached(response.revision);
                    }
                }
                command = self.inbox.recv() => match command {
                    Some(command) => self.obey(command, &mut watch),
                    None => return Ok(()),
                },
                _ = sweep.tick() => {
                    self.followers.values().for_each(|f| f.cache.subscribers.sweep());
                }
            }
        }
    }

    fn reached(&self, revision: Revision) {
        self.announce.send_if_modified(|progress| {
            let further = revision > *progress;
            *progress = revision.max(*progress);
            further
        });
    }

    fn obey(&mut self, command: Command, watch: &mut Watch) {
        match command {
            Command::Add(cache) => self.load(cache),
            Command::Remove(prefix) => {
                self.followers.remove(&prefix);
            }
            Command::Loaded { cache, snapshot } => {
                let follower = self.followers.get_mut(&cache.resource.prefix);
                let same = |follower: &&mut Follower| Arc::ptr_eq(&follower.cache, &cache);
                let Some(follower) = follower.filter(same) else { return };
                let waiting = follower.waiting.take().unwrap_or_default();
                follower.loaded = snapshot.revision;
                follower.cache.replace(snapshot);
                follower.take(waiting);
            }
            Command::Progress => watch.request_progress(),
        }
    }

    /// Loads a cache beside the stream; what the stream says meanwhile waits.
    fn load(&mut self, cache: Arc<Cache>) {
        let prefix = cache.resource.prefix.clone();
        let loaded = Revision::default();
        let follower = Follower { cache: cache.clone(), waiting: Some(Vec::new()), loaded };
        self.followers.insert(prefix.clone(), follower);
        let (engine, commands) = (self.engine.clone(), self.commands.clone());
        tokio::spawn(async move {
            while !cache.state.borrow().is_over() {
                match load(&*engine, &cache.resource, None).await {
                    Ok(snapshot) => {
                        let _ = commands.send(Command::Loaded { cache, snapshot });
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(%error, prefix, "a resource could not be loaded; trying again");
                    }
                }
                tokio::time::sleep(RETRY).await;
            }
        });
    }

    /// Hands each cache its part of a response at once: a revision is never seen in halves.
    fn hand_out(&mut self, events: Vec<crate::Event>) {
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            let Some(prefix) = self.home(&event) else { continue };
            let mut batch = vec![event];
            // Writers of different resources mix: take what belongs together, leave the rest.
            let rest: Vec<_> = events
                .filter_map(|event| match event.key.starts_with(prefix.as_bytes()) {
                    true => {
                        batch.push(event);
                        None
                    }
                    false => Some(event),
                })
                .collect();
            events = rest.into_iter();
            if let Some(follower) = self.followers.get_mut(&prefix) {
                follower.take(batch);
            }
        }
    }

    /// The prefix of the cache that an event belongs to.
    fn home(&self, event: &crate::Event) -> Option<String> {
        let key = std::str::from_utf8(&event.key).ok()?;
        let (prefix, _) = self.followers.range::<str, _>((Unbounded, Included(key))).next_back()?;
        key.starts_with(prefix.as_str()).then(|| prefix.clone())
    }
}

impl Follower {
    fn take(&mut self, events: Vec<crate::Event>) {
        match &mut self.waiting {
            Some(waiting) => waiting.extend(events),
            None => {
                let new = events.into_iter().filter(|event| event.revision > self.loaded);
                self.cache.apply(new);
            }
        }
    }
}

impl Cache {
    /// Shows a new state whose past is not known.
    fn replace(&self, snapshot: Snapshot) {
        if self.state.borrow().is_over() {
            return;
        }
        let again = *self.state.borrow() == State::Live;
        self.write(|log| {
            // A reader that stood before this point has missed something: numbers jump past it.
            log.reset(snapshot.revision, again);
            self.current.store(Arc::new(snapshot));
        });
        if again {
            self.subscribers.clear();
        }
        self.state.send_replace(State::Live);
    }

    /// Adds changes, all at once.
    fn apply(&self, changes: impl Iterator<Item = crate::Event>) {
        let mut snapshot = Snapshot::clone(&self.current.load());
        let mut number = self.log().end();
        let mut events = Vec::new();
        for change in changes {
            let Some(key) = key_below(&self.resource.prefix, &change.key) else { continue };
            let previous = snapshot.get(key).cloned();
            let current = change.current.map(|entry| {
                let wire = self.resource.decode.decode(&entry.value, entry.mod_revision);
                Arc::new(Object::new(key, entry.mod_revision, wire))
            });
            match &current {
                Some(object) => snapshot.objects.insert(Placed(object.clone())),
                None => snapshot.objects.remove(key),
            };
            snapshot.revision = change.revision;
            events.push(Arc::new(Event::new(number, change.revision, current, previous)));
            number += 1;
        }
        if events.is_empty() {
            return;
        }
        self.write(|log| {
            let now = Instant::now();
            events.iter().for_each(|event| log.push(event.clone(), now));
            self.current.store(Arc::new(snapshot));
        });
        self.subscribers.publish(&events, &self.resource);
    }

    /// Changes log and snapshot as one, and wakes who reads the log.
    fn write<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        let mut log = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut log);
        let end = log.end();
        drop(log);
        self.grown.send_replace(end);
        result
    }

    fn close(&self) {
        self.end(State::Closed);
    }

    fn end(&self, state: State) {
        self.state.send_replace(state);
        self.subscribers.clear();
        self.grown.send_modify(|_| {});
    }
}
