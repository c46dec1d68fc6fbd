//! Clients that write and read the same few objects.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kevel_test_support::wire::{Client, Version as HttpVersion};

use crate::api::{self, Target};
use crate::dice::Dice;
use crate::history::{At, HistoryClock, Outcome, Request, Version};
use crate::record::Line;

/// Delay before a client reconnects.
const AGAIN: Duration = Duration::from_millis(10);
/// Number of old revisions that a client remembers, for lists.
const REMEMBERED: usize = 32;

/// State that all clients share.
#[derive(Debug)]
pub struct Traffic {
    /// Clock of the run.
    pub clock: HistoryClock,
    /// Seed of the run.
    pub seed: u64,
    /// Names of the objects that all clients write.
    pub keys: Vec<String>,
    /// Set to end the traffic.
    pub stop: AtomicBool,
    /// Number of answered operations.
    pub answered: AtomicU64,
    /// Pause of each client after an operation, to leave time for other work on the machine.
    pub pause: Duration,
}

/// Value of a client's n-th write.
pub fn value(client: usize, number: u64, selected: bool) -> String {
    format!("c{client}.{number}.{}", if selected { "in" } else { "out" })
}

/// Whether an object with this value has the label.
pub fn is_selected(value: &str) -> bool {
    value.ends_with(".in")
}

impl Traffic {
    /// Names of a number of objects.
    pub fn keys(count: usize) -> Vec<String> {
        (0..count).map(|key| format!("key-{key}")).collect()
    }

    /// Runs one client until the traffic ends. Calls `tell` before each operation, and with its outcome.
    pub async fn client(
        self: Arc<Self>,
        number: usize,
        target: Target,
        mut tell: impl FnMut(Line),
    ) {
        let mut mind = Mind {
            dice: Dice::of(self.seed, number as u64 + 1),
            number,
            written: 0,
            known: HashMap::new(),
            revisions: Vec::new(),
        };
        let version =
            if number.is_multiple_of(2) { HttpVersion::Http2 } else { HttpVersion::Http1 };
        let mut connection: Option<Client> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let Some(client) = &mut connection else {
                connection = target.connect(version).await;
                if connection.is_none() {
                    tokio::time::sleep(AGAIN).await;
                }
                continue;
            };
            let request = mind.think(&self.keys);
            tell(Line::Begun(request.clone(), self.clock.now()));
            let outcome = api::perform(client, &request).await;
            tell(Line::Done(outcome.clone(), self.clock.now()));
            match &outcome {
                Outcome::Unknown(_) => connection = None,
                // The server has just started, or has no store: wait before the next request.
                Outcome::Refused(_) => tokio::time::sleep(AGAIN).await,
                _ => {}
            }
            mind.learn(&request, &outcome);
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
        }
    }
}

/// State of a client: observed versions, and the choice of the next operation.
struct Mind {
    dice: Dice,
    number: usize,
    written: u64,
    known: HashMap<String, Version>,
    revisions: Vec<u64>,
}

impl Mind {
    fn think(&mut self, keys: &[String]) -> Request {
        let key = self.dice.pick(keys).cloned().unwrap_or_default();
        let known = self.known.get(&key).cloned();
        let roll = self.dice.roll(100);
        match (roll, known) {
            (0..=17, _) => Request::Get { key, at: At::Consistent },
            (18..=21, _) => Request::Get { key, at: At::Any },
            (22..=33, _) | (34..=65, None) => Request::Create { key, value: self.next_value() },
            (34..=53, Some(known)) => {
                let (value, expected) = (self.next_value(), Some(known.revision));
                Request::Update { key, value, expected }
            }
            (54..=59, Some(_)) => Request::Update { key, value: self.next_value(), expected: None },
            (60..=65, Some(_)) => Request::Patch { key, value: self.next_value() },
            (66..=79, known) => {
                let kind = self.dice.roll(3);
                let revision = known.as_ref().filter(|_| kind == 0).map(|known| known.revision);
                let uid = known.filter(|_| kind == 1).map(|known| known.uid);
                Request::Delete { key, revision, uid }
            }
            (80..=86, _) => Request::List { at: At::Consistent, limit: None },
            (87..=91, _) => Request::List { at: At::Consistent, limit: Some(2) },
            (92..=93, _) => Request::List { at: At::Any, limit: None },
            _ => {
                let revision = self.dice.pick(&self.revisions).copied();
                let at = match (revision, roll) {
                    (None, _) => At::Consistent,
                    (Some(revision), 94..=97) => At::Exact(revision),
                    (Some(revision), _) => At::NotOlderThan(revision),
                };
                let limit = (roll == 97).then_some(2);
                Request::List { at, limit }
            }
        }
    }

    fn next_value(&mut self) -> String {
        self.written += 1;
        let selected = self.dice.chance(50);
        value(self.number, self.written, selected)
    }

    fn learn(&mut self, request: &Request, outcome: &Outcome) {
        match (request.key(), outcome) {
            (Some(key), Outcome::Object(version)) => {
                self.remember(version.revision);
                self.known.insert(key.to_owned(), version.clone());
            }
            // Sometimes a deleted version is remembered: requests that rely on it must be refused.
            (Some(key), Outcome::Deleted | Outcome::NotFound) if self.dice.chance(70) => {
                self.known.remove(key);
            }
            (None, Outcome::List { revision, .. }) => self.remember(*revision),
            _ => {}
        }
    }

    fn remember(&mut self, revision: u64) {
        if self.revisions.len() >= REMEMBERED {
            self.revisions.remove(0);
        }
        self.revisions.push(revision);
    }
}
