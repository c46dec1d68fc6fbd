//! What happened in a run: every operation with its times, every line that a watcher was sent.

use std::fmt;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the run began, by a clock that never goes back.
pub type Nanos = u64;

/// The end of an operation that may still take effect.
pub const NEVER: Nanos = Nanos::MAX;

/// The clock of a run: the same in all processes of it.
#[derive(Debug, Clone, Copy)]
pub struct HistoryClock {
    base: Nanos,
}

impl HistoryClock {
    /// Starts at zero.
    pub fn start() -> HistoryClock {
        HistoryClock { base: machine() }
    }

    /// The clock of a run that began at this time of the machine's.
    pub fn from_base(base: Nanos) -> HistoryClock {
        HistoryClock { base }
    }

    /// When it began, by the machine's clock.
    pub fn base(&self) -> Nanos {
        self.base
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        machine().saturating_sub(self.base)
    }
}

/// The machine's clock that never goes back.
fn machine() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

/// An object as somebody saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// What it holds. Written once in a run, so that it tells which write this is.
    pub value: String,
    /// Which life of the name this is.
    pub uid: String,
    /// Its resourceVersion.
    pub revision: u64,
    /// Whether its label says that it is selected.
    pub selected: bool,
}

/// How fresh a list has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// No resourceVersion: everything acknowledged before.
    Consistent,
    /// resourceVersion=0: whatever there is.
    Any,
    /// At least this revision.
    NotOlderThan(u64),
    /// This revision.
    Exact(u64),
}

/// What a client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// POST.
    Create {
        /// The name.
        key: String,
        /// The unique value.
        value: String,
    },
    /// PUT, with the resourceVersion that it replaces or without one.
    Update {
        /// The name.
        key: String,
        /// The unique value.
        value: String,
        /// What it replaces.
        expected: Option<u64>,
    },
    /// A merge patch without a resourceVersion.
    Patch {
        /// The name.
        key: String,
        /// The unique value.
        value: String,
    },
    /// DELETE, with preconditions or without.
    Delete {
        /// The name.
        key: String,
        /// The resourceVersion that it must have.
        revision: Option<u64>,
        /// The UID that it must have.
        uid: Option<String>,
    },
    /// GET of one object.
    Get {
        /// The name.
        key: String,
        /// How fresh.
        at: At,
    },
    /// A list, in pages where there is a limit.
    List {
        /// How fresh.
        at: At,
        /// Objects on a page.
        limit: Option<u64>,
    },
}

impl Request {
    /// The object that this is about; `None` for lists.
    pub fn key(&self) -> Option<&str> {
        match self {
            Request::Create { key, .. }
            | Request::Update { key, .. }
            | Request::Patch { key, .. }
            | Request::Delete { key, .. }
            | Request::Get { key, .. } => Some(key),
            Request::List { .. } => None,
        }
    }

    /// The value that this would write.
    pub fn value(&self) -> Option<&str> {
        match self {
            Request::Create { value, .. }
            | Request::Update { value, .. }
            | Request::Patch { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Whether this changes anything.
    pub fn is_write(&self) -> bool {
        self.value().is_some() || matches!(self, Request::Delete { .. })
    }
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The object as it was written or read.
    Object(Version),
    /// It was deleted.
    Deleted,
    /// 404
    NotFound,
    /// 409 AlreadyExists
    Exists,
    /// 409 Conflict
    Conflict,
    /// All pages of a list.
    List {
        /// Its resourceVersion.
        revision: u64,
        /// Names and objects, in the order of the list.
        items: Vec<(String, Version)>,
        /// How many pages it had.
        pages: usize,
    },
    /// 410
    Gone,
    /// Refused for a reason that says nothing about objects (429, a list that cannot be served): it did not happen.
    Refused(String),
    /// An answer that no client can make sense of.
    Broken(String),
    /// No answer, or one that says that nobody knows: it may or may not have happened.
    Unknown(String),
}

/// One operation of one client.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Who.
    pub client: usize,
    /// What.
    pub request: Request,
    /// When it was sent, at the earliest.
    pub start: Nanos,
    /// When its outcome was known, at the latest.
    pub end: Nanos,
    /// What came of it.
    pub outcome: Outcome,
}

/// The type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// ADDED
    Added,
    /// MODIFIED
    Modified,
    /// DELETED
    Deleted,
}

/// What a watcher wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interest {
    /// Everything in the namespace.
    All,
    /// What carries the label.
    Selected,
    /// One name.
    Name(String),
}

/// A line in the log of a watcher.
#[derive(Debug, Clone)]
pub enum Seen {
    /// It listed, and goes on from there.
    Listed {
        /// The list's resourceVersion.
        revision: u64,
        /// What was on it.
        items: Vec<(String, Version)>,
    },
    /// It opened a watch after a revision; `None` to be told the state first (`sendInitialEvents`).
    Opened {
        /// The revision that it has seen.
        after: Option<u64>,
    },
    /// An event.
    Event {
        /// Its type.
        change: Change,
        /// The object's name.
        key: String,
        /// The object.
        version: Version,
    },
    /// A bookmark.
    Bookmark {
        /// Everything up to here was told.
        revision: u64,
        /// Whether it ends the initial events.
        initial_end: bool,
    },
    /// 410: something was missed, and it says so.
    Gone,
    /// The watch ended: its time was up, the connection was lost, or it was told an error.
    Ended(String),
    /// A line that no client can make sense of, or none at all for too long.
    Broken(String),
}

/// All that a watcher was told.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Which one.
    pub name: String,
    /// What it wants to see.
    pub interest: Interest,
    /// When it saw what.
    pub log: Vec<(Nanos, Seen)>,
}

/// A fault that was put in.
#[derive(Debug, Clone)]
pub struct Fault {
    /// When it began.
    pub start: Nanos,
    /// When it was over.
    pub end: Nanos,
    /// What it was.
    pub what: String,
}

/// Everything that was recorded.
#[derive(Debug, Default)]
pub struct History {
    /// Of all clients.
    pub operations: Vec<Operation>,
    /// Of all watchers.
    pub watchers: Vec<Watched>,
    /// In order.
    pub faults: Vec<Fault>,
    /// When a server was known to be dead: what it had not done by then it never did.
    pub deaths: Vec<Nanos>,
    /// What the store says of its own past, where it could be asked: revision, name, and the value; `None` for
    /// a deletion.
    pub stored: Vec<(u64, String, Option<String>)>,
    /// From which revision to which the store could be asked.
    pub stored_range: Option<(u64, u64)>,
}

impl fmt::Display for History {
    /// A line for each thing, in order of time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<(Nanos, String)> = Vec::new();
        for o in &self.operations {
            let took = o.end.saturating_sub(o.start) / 1000;
            let what =
                format!("client {} {:?} -> {:?} ({took} us)", o.client, o.request, o.outcome);
            lines.push((o.start, what));
        }
        for watcher in &self.watchers {
            for (at, seen) in &watcher.log {
                lines.push((*at, format!("watcher {} {seen:?}", watcher.name)));
            }
        }
        for fault in &self.faults {
            let took = fault.end.saturating_sub(fault.start) / 1_000_000;
            lines.push((fault.start, format!("FAULT {} ({took} ms)", fault.what)));
        }
        for death in &self.deaths {
            lines.push((*death, "the server is dead".to_owned()));
        }
        lines.sort();
        for (at, line) in lines {
            writeln!(f, "{:>14} {line}", at / 1000)?;
        }
        for (revision, key, value) in &self.stored {
            writeln!(f, "stored {revision} {key} {value:?}")?;
        }
        Ok(())
    }
}
