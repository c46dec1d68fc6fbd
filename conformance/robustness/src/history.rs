//! History of a run: all operations with their times, and all lines that watchers received.

use std::fmt;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the start of the run, by a monotonic clock.
pub type Nanos = u64;

/// End of an operation that may still take effect.
pub const NEVER: Nanos = Nanos::MAX;

/// Clock of a run, the same in all its processes.
#[derive(Debug, Clone, Copy)]
pub struct HistoryClock {
    base: Nanos,
}

impl HistoryClock {
    /// Starts a clock at zero.
    pub fn start() -> HistoryClock {
        HistoryClock { base: machine() }
    }

    /// Clock of a run that began at this monotonic time.
    pub fn from_base(base: Nanos) -> HistoryClock {
        HistoryClock { base }
    }

    /// Monotonic time of the start.
    pub fn base(&self) -> Nanos {
        self.base
    }

    /// Time since the start.
    pub fn now(&self) -> Nanos {
        machine().saturating_sub(self.base)
    }
}

/// Monotonic time of the machine.
fn machine() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

/// Observed version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Value, unique in a run, so that it identifies the write.
    pub value: String,
    /// UID, which identifies the incarnation of the name.
    pub uid: String,
    /// resourceVersion.
    pub revision: u64,
    /// Whether it has the selected label.
    pub selected: bool,
}

/// Consistency of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// No resourceVersion: consistent with everything acknowledged before.
    Consistent,
    /// resourceVersion=0: any cached state.
    Any,
    /// At least this revision.
    NotOlderThan(u64),
    /// This revision.
    Exact(u64),
}

/// Request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// POST.
    Create {
        /// The name.
        key: String,
        /// The unique value.
        value: String,
    },
    /// PUT, with or without the resourceVersion that it replaces.
    Update {
        /// The name.
        key: String,
        /// The unique value.
        value: String,
        /// resourceVersion that it replaces.
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
        /// Precondition on the resourceVersion.
        revision: Option<u64>,
        /// Precondition on the UID.
        uid: Option<String>,
    },
    /// GET of one object.
    Get {
        /// The name.
        key: String,
        /// Consistency.
        at: At,
    },
    /// A list, in pages if there is a limit.
    List {
        /// Consistency.
        at: At,
        /// Objects per page.
        limit: Option<u64>,
    },
}

impl Request {
    /// Name of the object; `None` for lists.
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

    /// Value that it would write.
    pub fn value(&self) -> Option<&str> {
        match self {
            Request::Create { value, .. }
            | Request::Update { value, .. }
            | Request::Patch { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Whether it is a write.
    pub fn is_write(&self) -> bool {
        self.value().is_some() || matches!(self, Request::Delete { .. })
    }
}

/// Outcome of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Object as it was written or read.
    Object(Version),
    /// The object was deleted.
    Deleted,
    /// 404
    NotFound,
    /// 409 AlreadyExists
    Exists,
    /// 409 Conflict
    Conflict,
    /// All pages of a list.
    List {
        /// resourceVersion of the list.
        revision: u64,
        /// Names and objects, in the order of the list.
        items: Vec<(String, Version)>,
        /// Number of pages.
        pages: usize,
    },
    /// 410
    Gone,
    /// Refused for a reason that is independent of objects (429, a list that cannot be served): it had no effect.
    Refused(String),
    /// An invalid answer.
    Broken(String),
    /// No answer, or one that leaves the effect open: it may or may not have happened.
    Unknown(String),
}

/// One operation of one client.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Client.
    pub client: usize,
    /// Request.
    pub request: Request,
    /// Time before it was sent.
    pub start: Nanos,
    /// Time after its outcome was known.
    pub end: Nanos,
    /// Outcome.
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

/// Filter of a watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interest {
    /// All objects in the namespace.
    All,
    /// Objects with the label.
    Selected,
    /// One object by name.
    Name(String),
}

/// Line in the log of a watcher.
#[derive(Debug, Clone)]
pub enum Seen {
    /// A list, from which the watch continues.
    Listed {
        /// The list's resourceVersion.
        revision: u64,
        /// Objects of the list.
        items: Vec<(String, Version)>,
    },
    /// A watch was opened after a revision; `None` for initial events first (`sendInitialEvents`).
    Opened {
        /// Last revision that the watcher has seen.
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
        /// Revision up to which everything was sent.
        revision: u64,
        /// Whether it ends the initial events.
        initial_end: bool,
    },
    /// 410: events were missed.
    Gone,
    /// The watch ended: timeout, lost connection, or an error.
    Ended(String),
    /// An invalid line, or none at all for too long.
    Broken(String),
}

/// Log of a watcher.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Name of the watcher.
    pub name: String,
    /// Filter.
    pub interest: Interest,
    /// Lines with their times.
    pub log: Vec<(Nanos, Seen)>,
}

/// An injected fault.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Start.
    pub start: Nanos,
    /// End.
    pub end: Nanos,
    /// Description.
    pub what: String,
}

/// Everything that was recorded.
#[derive(Debug, Default)]
pub struct History {
    /// Operations of all clients.
    pub operations: Vec<Operation>,
    /// Logs of all watchers.
    pub watchers: Vec<Watched>,
    /// Faults, in order.
    pub faults: Vec<Fault>,
    /// Times at which a server was known to be dead: operations not done by then never happen.
    pub deaths: Vec<Nanos>,
    /// History of the store itself, if it could be read: revision, name, and value; `None` for a deletion.
    pub stored: Vec<(u64, String, Option<String>)>,
    /// Range of revisions that could be read from the store.
    pub stored_range: Option<(u64, u64)>,
}

impl fmt::Display for History {
    /// Prints a line for each record, in order of time.
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
