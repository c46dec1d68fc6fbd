//! Watchers that record every line, and resume after the end of a connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use kevel_test_support::wire::{Client, Version as HttpVersion};
use serde_json::Value;

use crate::api::{self, MAPS, NOT_OURS, PATIENCE, Target};
use crate::dice::Dice;
use crate::history::{At, Change, Interest, Outcome, Seen, Watched};
use crate::traffic::Traffic;

const AGAIN: Duration = Duration::from_millis(10);
/// Limit on silence, bookmarks and the end included, after which a watch counts as hung.
const SILENCE: Duration = Duration::from_secs(40);

/// Reason of a regular end of a watch.
pub const TIME_IS_UP: &str = "its time is up";

/// Source of a watcher's initial state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// A list.
    List,
    /// Initial events of the watch (`sendInitialEvents`).
    InitialEvents,
}

/// Last revision of each object after the last write, which every watcher has to reach.
pub type Goal = tokio::sync::watch::Receiver<Option<Arc<BTreeMap<String, u64>>>>;

/// Number of watchers that covers one of each kind.
pub const KINDS: usize = 5;

/// One watcher.
#[derive(Debug)]
pub struct Watcher {
    traffic: Arc<Traffic>,
    target: Target,
    begin: Begin,
    dice: Dice,
    watched: Watched,
    /// Last revision that it has seen.
    last: Option<u64>,
    /// Number of watchers that know their initial state.
    begun: Arc<AtomicU64>,
    has_begun: bool,
}

/// Reason of the end of one watch.
enum End {
    /// Resume where it was.
    Resume,
    /// Resume, with the reason of the end.
    Ended(String),
    /// Events were missed.
    Gone,
}

impl Watcher {
    /// Makes the n-th watcher. It increments `begun` when it misses no more events.
    pub fn new(
        number: usize,
        traffic: Arc<Traffic>,
        target: Target,
        begun: Arc<AtomicU64>,
    ) -> Watcher {
        let name = traffic.keys.get(number % traffic.keys.len()).cloned().unwrap_or_default();
        let (begin, interest) = match number % 5 {
            0 => (Begin::List, Interest::All),
            1 => (Begin::List, Interest::Selected),
            2 => (Begin::InitialEvents, Interest::All),
            3 => (Begin::List, Interest::Name(name)),
            _ => (Begin::InitialEvents, Interest::Selected),
        };
        let dice = Dice::of(traffic.seed, 1000 + number as u64);
        let watched = Watched {
            name: format!("{number} ({begin:?}, {interest:?})"),
            interest,
            log: Vec::new(),
        };
        Watcher { traffic, target, begin, dice, watched, last: None, begun, has_begun: false }
    }

    /// Watches until the end of the run and the last writes, or a time limit. Returns the log, and whether it saw the
    /// last writes.
    pub async fn run(mut self, goal: Goal) -> (Watched, bool) {
        let mut over = goal.clone();
        loop {
            if self.arrived(&goal) {
                return (self.watched, true);
            }
            let stop = async {
                let _ = over.wait_for(Option::is_some).await;
                tokio::time::sleep(PATIENCE).await;
            };
            tokio::select! {
                () = stop => return (self.watched, false),
                () = self.turn(goal.clone()) => {}
            }
        }
    }

    /// Whether it has seen all matching last writes.
    fn arrived(&self, goal: &Goal) -> bool {
        let goal = goal.borrow();
        let Some(goal) = goal.as_ref() else { return false };
        let revision = match &self.watched.interest {
            Interest::Name(name) => goal.get(name),
            _ => goal.values().max(),
        };
        self.last >= revision.copied()
    }

    fn note(&mut self, seen: Seen) {
        match &seen {
            Seen::Listed { revision, .. } => self.last = Some(*revision),
            Seen::Bookmark { revision, .. } => self.last = self.last.max(Some(*revision)),
            Seen::Gone => self.last = None,
            _ => {}
        }
        if self.last.is_some() && !self.has_begun {
            self.has_begun = true;
            self.begun.fetch_add(1, Ordering::Relaxed);
        }
        self.watched.log.push((self.traffic.clock.now(), seen));
    }

    /// Watches on one connection.
    async fn turn(&mut self, goal: Goal) {
        let Some(mut client) = self.target.connect(HttpVersion::Http2).await else {
            tokio::time::sleep(AGAIN).await;
            return;
        };
        if self.last.is_none() && self.begin == Begin::List && !self.list(&mut client).await {
            tokio::time::sleep(AGAIN).await;
            return;
        }
        let Some(body) = self.open(&mut client).await else {
            tokio::time::sleep(AGAIN).await;
            return;
        };
        match self.follow(body, goal).await {
            Ok(End::Resume) => {}
            Ok(End::Ended(why)) => self.note(Seen::Ended(why)),
            Ok(End::Gone) => self.note(Seen::Gone),
            Err(why) => self.note(Seen::Broken(why)),
        }
    }

    fn selector(&self) -> String {
        match &self.watched.interest {
            Interest::All => String::new(),
            Interest::Selected => "labelSelector=selected%3Din".to_owned(),
            Interest::Name(name) => format!("fieldSelector=metadata.name%3D{name}"),
        }
    }

    /// Lists the initial state; false if that failed.
    async fn list(&mut self, client: &mut Client) -> bool {
        let listed = api::list(client, At::Consistent, None, &self.selector()).await;
        let Ok(Outcome::List { revision, items, .. }) = listed else { return false };
        self.note(Seen::Listed { revision, items });
        true
    }

    async fn open(&mut self, client: &mut Client) -> Option<Incoming> {
        // Watches of all durations: those that time out end with a bookmark.
        let seconds = self.dice.between(2, 15);
        let begin = match self.last {
            Some(last) => format!("resourceVersion={last}"),
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let path = format!(
            "{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&{}&{begin}",
            self.selector()
        );
        let after = self.last;
        let response = tokio::time::timeout(PATIENCE, client.get(&path)).await.ok()?.ok()?;
        match response.status().as_u16() {
            200 => {
                self.note(Seen::Opened { after });
                Some(response.into_body())
            }
            410 => {
                self.note(Seen::Gone);
                None
            }
            _ => None,
        }
    }

    /// Reads events until the watch ends; the error is an invalid line. During the initial events there is no revision
    /// to resume from.
    async fn follow(&mut self, mut body: Incoming, mut goal: Goal) -> Result<End, String> {
        let mut rest: Vec<u8> = Vec::new();
        loop {
            let frame = tokio::select! {
                frame = tokio::time::timeout(SILENCE, body.frame()) => frame,
                // Checked once more at the end of the run: the last event may have come already.
                changed = goal.changed() => match changed {
                    Ok(()) if !self.arrived(&goal) => continue,
                    _ => return Ok(End::Resume),
                },
            };
            let Some(frame) = frame.map_err(|_| format!("silence for {SILENCE:?}"))? else {
                return Ok(End::Ended(TIME_IS_UP.to_owned()));
            };
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => return Ok(End::Ended(error.to_string())),
            };
            rest.extend_from_slice(frame.data_ref().map(|data| &**data).unwrap_or_default());
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let line: Value = serde_json::from_slice(&line)
                    .map_err(|error| format!("a line that is no JSON: {error}"))?;
                if let Some(end) = self.line(&line)? {
                    return Ok(end);
                }
            }
            if self.arrived(&goal) {
                return Ok(End::Resume);
            }
        }
    }

    fn line(&mut self, line: &Value) -> Result<Option<End>, String> {
        let object = &line["object"];
        let change = match line["type"].as_str() {
            Some("ADDED") => Change::Added,
            Some("MODIFIED") => Change::Modified,
            Some("DELETED") => Change::Deleted,
            Some("BOOKMARK") => {
                let meta = &object["metadata"];
                let revision =
                    api::number(&meta["resourceVersion"]).ok_or("a bookmark of nothing")?;
                let initial_end = meta["annotations"]["k8s.io/initial-events-end"] == "true";
                self.note(Seen::Bookmark { revision, initial_end });
                return Ok(None);
            }
            Some("ERROR") if object["code"] == 410 => return Ok(Some(End::Gone)),
            Some("ERROR") => return Ok(Some(End::Ended(object.to_string()))),
            _ => return Err(format!("an event of no kind: {line}")),
        };
        if object["metadata"]["name"] == NOT_OURS {
            return Ok(None);
        }
        let (key, version) =
            api::version(object).ok_or_else(|| format!("an event without an object: {line}"))?;
        // An initial event is no revision to resume from.
        if let Some(last) = &mut self.last {
            *last = (*last).max(version.revision);
        }
        self.note(Seen::Event { change, key, version });
        Ok(None)
    }
}
