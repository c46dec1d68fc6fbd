//! Reference history: the facts about each revision, from all clients and watchers, which must agree with it.

use std::collections::{BTreeMap, HashMap};

use super::Violation;
use crate::history::{Change, History, Interest, Nanos, Operation, Outcome, Seen, Version};

/// Change of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the changed object.
    pub key: String,
    /// New value; `None` for a deletion.
    pub value: Option<String>,
}

/// Facts about a value.
#[derive(Debug, Clone)]
pub struct Known {
    /// Revision that wrote it.
    pub revision: u64,
    /// UID of the object that it belongs to, if it was observed.
    pub uid: Option<String>,
    /// Time of the first observation.
    pub first_seen: Nanos,
}

/// Value of a key at a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held<'a> {
    /// Known value; `None` if the object did not exist.
    Known(Option<&'a str>),
    /// Part of the history just before was not observed.
    Unclear,
}

/// Reference history of a run.
#[derive(Debug, Default)]
pub struct Reference {
    entries: BTreeMap<u64, Entry>,
    by_key: HashMap<String, BTreeMap<u64, Option<String>>>,
    values: HashMap<String, Known>,
    /// Disjoint ranges of revisions that were observed completely: after the first, up to the second.
    covered: Vec<(u64, u64)>,
}

impl Reference {
    /// Collects all observations. Contradicting observations are a violation, and so are values that were never
    /// written.
    pub fn of(history: &History, violations: &mut Vec<Violation>) -> Reference {
        let mut gathering =
            Gathering { reference: Reference::default(), writes: HashMap::new(), violations };
        for operation in &history.operations {
            if let Some(value) = operation.request.value() {
                gathering.writes.insert(value, operation);
            }
        }
        for operation in &history.operations {
            gathering.operation(operation);
        }
        for watcher in &history.watchers {
            for (at, seen) in &watcher.log {
                gathering.seen(*at, seen, &watcher.interest, &watcher.name);
            }
        }
        for (revision, key, value) in &history.stored {
            gathering.note(*revision, key, value.as_deref(), "the store");
        }
        let mut reference = gathering.reference;
        reference.covered = covered(history);
        reference
    }

    /// Number of known revisions.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Facts about a value, if it was observed.
    pub fn value(&self, value: &str) -> Option<&Known> {
        self.values.get(value)
    }

    /// Value that a revision wrote.
    pub fn written_at(&self, revision: u64) -> Option<&str> {
        self.entries.get(&revision)?.value.as_deref()
    }

    /// Revisions after the first and up to the second.
    pub fn between(&self, after: u64, until: u64) -> impl Iterator<Item = (u64, &Entry)> {
        let range = (after < until).then(|| self.entries.range(after + 1..=until));
        range.into_iter().flatten().map(|(revision, entry)| (*revision, entry))
    }

    /// Keys that were ever written.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.by_key.keys().map(String::as_str)
    }

    /// Whether all changes after the first and up to the second revision were observed.
    pub fn is_covered(&self, after: u64, until: u64) -> bool {
        after >= until || self.covered.iter().any(|(from, to)| *from <= after && until <= *to)
    }

    /// Whether the whole history was observed, so that everything else did not happen.
    pub fn is_complete(&self) -> bool {
        let last = self.entries.last_key_value().map_or(0, |(revision, _)| *revision);
        self.is_covered(0, last)
    }

    /// Value of a key at a revision.
    pub fn held(&self, key: &str, revision: u64) -> Held<'_> {
        let last = self.by_key.get(key).and_then(|all| all.range(..=revision).next_back());
        let (since, value) = last.map_or((0, None), |(since, value)| (*since, value.as_deref()));
        match self.is_covered(since, revision) {
            true => Held::Known(value),
            false => Held::Unclear,
        }
    }

    /// Value of a key just before a revision that changed it.
    pub fn held_before(&self, key: &str, revision: u64) -> Held<'_> {
        self.held(key, revision.saturating_sub(1))
    }
}

struct Gathering<'a, 'v> {
    reference: Reference,
    /// Operations by the value that they would write.
    writes: HashMap<&'a str, &'a Operation>,
    violations: &'v mut Vec<Violation>,
}

impl Gathering<'_, '_> {
    fn operation(&mut self, operation: &Operation) {
        let who = format!("client {}", operation.client);
        match &operation.outcome {
            Outcome::Object(version) => {
                let key = operation.request.key().unwrap_or_default();
                if operation.request.value().is_some_and(|value| value != version.value) {
                    let what = format!("{operation:?} was answered with another value");
                    self.violations
                        .push(Violation::new("a write is answered with what it wrote", what));
                }
                self.version(operation.end, key, version, &who);
            }
            Outcome::List { items, .. } => {
                for (key, version) in items {
                    self.version(operation.end, key, version, &who);
                }
            }
            _ => {}
        }
    }

    fn seen(&mut self, at: Nanos, seen: &Seen, interest: &Interest, who: &str) {
        match seen {
            Seen::Listed { items, .. } => {
                for (key, version) in items {
                    self.version(at, key, version, who);
                }
            }
            Seen::Event { change: Change::Deleted, key, version } => {
                // A watcher with a selector also gets DELETED when an object leaves the selection.
                if *interest != Interest::Selected {
                    self.note(version.revision, key, None, who);
                }
                self.written(key, &version.value, who);
            }
            Seen::Event { key, version, .. } => self.version(at, key, version, who),
            _ => {}
        }
    }

    fn version(&mut self, at: Nanos, key: &str, version: &Version, who: &str) {
        self.note(version.revision, key, Some(&version.value), who);
        self.written(key, &version.value, who);
        let known = self.reference.values.entry(version.value.clone()).or_insert_with(|| Known {
            revision: version.revision,
            uid: None,
            first_seen: at,
        });
        known.first_seen = known.first_seen.min(at);
        let uid = known.uid.get_or_insert_with(|| version.uid.clone());
        if known.revision != version.revision || *uid != version.uid {
            let what = format!("{who} saw {key} as {version:?}, others as {known:?}");
            self.violations.push(Violation::new("a write has one revision", what));
        }
    }

    /// Reports an observed value that no successful or unknown operation wrote.
    fn written(&mut self, key: &str, value: &str, who: &str) {
        let writer = self.writes.get(value).copied();
        let fits = writer.is_some_and(|o| {
            let refused =
                !matches!(o.outcome, Outcome::Object(_) | Outcome::Unknown(_) | Outcome::Broken(_));
            o.request.key() == Some(key) && !refused
        });
        if !fits {
            let what = format!("{who} saw {value} in {key}, which was written by {writer:?}");
            self.violations.push(Violation::new("no phantom", what));
        }
    }

    fn note(&mut self, revision: u64, key: &str, value: Option<&str>, who: &str) {
        let entry = Entry { key: key.to_owned(), value: value.map(str::to_owned) };
        let known = self.reference.entries.entry(revision).or_insert_with(|| entry.clone());
        if *known != entry {
            let what = format!("{who} saw {entry:?} at revision {revision}, others {known:?}");
            self.violations.push(Violation::new("a revision is one write", what));
            return;
        }
        let of_key = self.reference.by_key.entry(key.to_owned()).or_default();
        of_key.insert(revision, entry.value);
    }
}

/// Ranges that watchers of everything observed completely.
fn covered(history: &History) -> Vec<(u64, u64)> {
    let mut stretches: Vec<(u64, u64)> = history.stored_range.into_iter().collect();
    for watcher in history.watchers.iter().filter(|watcher| watcher.interest == Interest::All) {
        stretches.extend(stretches_of(&watcher.log).into_iter().map(|s| (s.after, s.until)));
    }
    // No object existed before the first write of the run.
    if let Some(first) = stretches.iter().map(|(after, _)| *after).min() {
        stretches.push((0, first));
    }
    stretches.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (after, until) in stretches {
        match joined.last_mut() {
            Some(last) if after <= last.1 => last.1 = last.1.max(until),
            _ => joined.push((after, until)),
        }
    }
    joined
}

/// Contiguous part of the history that a watcher received, possibly on several connections, each resuming where the
/// last one ended.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// Revision at which the watcher knows the state.
    pub after: u64,
    /// Revision up to which it received everything.
    pub until: u64,
    /// Received events, in order: positions in its log.
    pub events: Vec<usize>,
}

/// Contiguous parts of a watcher's log. A list, the initial events of a watch and 410 begin a new one.
pub fn stretches_of(log: &[(Nanos, Seen)]) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut current: Option<Stretch> = None;
    let mut initial = false;
    for (place, (_, seen)) in log.iter().enumerate() {
        match seen {
            Seen::Listed { revision, .. } => {
                stretches.extend(current.take());
                current = Some(Stretch { after: *revision, until: *revision, events: Vec::new() });
            }
            Seen::Opened { after: None } => {
                stretches.extend(current.take());
                initial = true;
            }
            Seen::Opened { after: Some(_) } => initial = false,
            Seen::Bookmark { revision, initial_end: true } if initial => {
                initial = false;
                current = Some(Stretch { after: *revision, until: *revision, events: Vec::new() });
            }
            Seen::Bookmark { revision, .. } => {
                if let Some(stretch) = &mut current {
                    stretch.until = stretch.until.max(*revision);
                }
            }
            Seen::Event { version, .. } if !initial => {
                if let Some(stretch) = &mut current {
                    stretch.until = stretch.until.max(version.revision);
                    stretch.events.push(place);
                }
            }
            Seen::Gone => {
                initial = false;
                stretches.extend(current.take());
            }
            Seen::Event { .. } | Seen::Ended(_) | Seen::Broken(_) => {}
        }
    }
    stretches.extend(current);
    stretches
}
