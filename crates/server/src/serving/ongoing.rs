//! What a connection is doing, and what it is told to do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kevel_clock::monotonic_now;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::Limits;

/// How long a client has to take its last answers and its GOAWAY, from the last byte that went or
/// came on.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// What a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    GoOn,
    /// End after the requests that are under way.
    Finish,
    /// End at once.
    Drop,
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<Open>,
    last_left: Notify,
}

#[derive(Debug, Default)]
struct Open {
    connections: HashMap<u64, Arc<Ongoing>>,
    next: u64,
    order: Option<Order>,
}

impl Connections {
    /// A new connection; it is gone when what is returned is.
    pub fn add(self: &Arc<Self>) -> Registered {
        let ongoing = Arc::new(Ongoing::new());
        let mut open = self.lock();
        if let Some(order) = open.order {
            ongoing.order(order);
        }
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, ongoing.clone());
        Registered { id, ongoing, connections: self.clone() }
    }

    pub fn count(&self) -> usize {
        self.lock().connections.len()
    }

    /// Tells all connections, and those to come.
    pub fn order(&self, order: Order) {
        let mut open = self.lock();
        open.order = Some(order);
        for connection in open.connections.values() {
            connection.order(order);
        }
    }

    /// Tells those that are there to end after the requests that are under way. Of HTTP/1.1 only those that have one:
    /// who is idle would be closed in the face of a client that asks just now.
    pub fn finish_busy(&self) {
        for connection in self.lock().connections.values() {
            if connection.in_flight() > 0 || !connection.http1.load(Ordering::Acquire) {
                connection.order(Order::Finish);
            }
        }
    }

    pub async fn none_left(&self) {
        loop {
            let mut left = std::pin::pin!(self.last_left.notified());
            left.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            left.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place among all.
#[derive(Debug)]
pub(super) struct Registered {
    id: u64,
    pub ongoing: Arc<Ongoing>,
    connections: Arc<Connections>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.connections.remove(&self.id);
        if open.connections.is_empty() {
            self.connections.last_left.notify_waiters();
        }
    }
}

/// What a connection is doing.
#[derive(Debug)]
pub(super) struct Ongoing {
    start: Instant,
    in_flight: AtomicUsize,
    /// Since when it has been waiting for a request, or for the rest of one, in milliseconds.
    since: AtomicU64,
    /// When bytes last went or came, in milliseconds, while it finishes.
    moved: AtomicU64,
    /// A part of a request's head has come.
    head: AtomicBool,
    http1: AtomicBool,
    order: AtomicU8,
    ordered: Notify,
    /// The socket, when nothing is read or written any more.
    left: Mutex<Option<TcpStream>>,
}

/// What to do about a connection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing; look again then.
    Wait(Instant),
    /// It was idle for too long.
    Finish,
    /// The client takes too long.
    Drop,
}

impl Ongoing {
    fn new() -> Self {
        Ongoing {
            start: monotonic_now(),
            in_flight: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            head: AtomicBool::new(false),
            http1: AtomicBool::new(false),
            order: AtomicU8::new(Order::GoOn as u8),
            ordered: Notify::new(),
            left: Mutex::default(),
        }
    }

    /// The handshake is over. With HTTP/1 the time for the first request's head runs from here.
    pub fn speaks(&self, http1: bool) {
        self.wait_since_now();
        self.head.store(http1, Ordering::Release);
        self.http1.store(http1, Ordering::Release);
    }

    /// Bytes have come. What they are nobody can tell with HTTP/2, where a client also pings.
    pub fn bytes_came(&self) {
        self.bytes_moved();
        if self.http1.load(Ordering::Relaxed)
            && self.in_flight.load(Ordering::Relaxed) == 0
            && !self.head.swap(true, Ordering::AcqRel)
        {
            self.wait_since_now();
        }
    }

    /// Bytes have gone or come. An answer that was given in full may still be on its way for long.
    pub fn bytes_moved(&self) {
        if self.order.load(Ordering::Relaxed) != Order::GoOn as u8 {
            self.moved.store(self.milliseconds(), Ordering::Release);
        }
    }

    /// A request has come; its answer has gone out when what is returned is dropped.
    pub fn enter(self: &Arc<Self>) -> Exchange {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        Exchange(self.clone())
    }

    /// How long it has been waiting for a request.
    pub fn waited(&self) -> Duration {
        let now = self.milliseconds();
        Duration::from_millis(now.saturating_sub(self.since.load(Ordering::Acquire)))
    }

    /// How many requests are under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub fn order(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
        self.ordered.notify_one();
    }

    /// The next order.
    pub async fn ordered(&self) -> Order {
        self.ordered.notified().await;
        match self.order.load(Ordering::Acquire) {
            2.. => Order::Drop,
            1 => Order::Finish,
            0 => Order::GoOn,
        }
    }

    /// Leaves the socket to its new owner.
    pub fn leave(&self, stream: TcpStream) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }

    /// The socket, if it was left.
    pub fn left(&self) -> Option<TcpStream> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Done when the connection is to end at once.
    pub async fn dropped(&self) {
        while self.ordered().await != Order::Drop {}
    }

    /// Judges the connection. One that was told to finish, and when, is waited for no longer than its
    /// requests, and a moment.
    pub fn judge(&self, limits: &Limits, finishing: Option<Instant>) -> Verdict {
        let now = monotonic_now();
        let http1 = self.http1.load(Ordering::Acquire);
        let busy = self.in_flight.load(Ordering::Acquire) > 0;
        // A head that begins after this look has at least that long.
        let soonest = match (finishing, http1) {
            (Some(_), _) => LINGER,
            (None, true) => limits.header_read.min(limits.idle),
            (None, false) => limits.idle,
        };
        if busy {
            return Verdict::Wait(now + soonest);
        }
        let at =
            |time: &AtomicU64| self.start + Duration::from_millis(time.load(Ordering::Acquire));
        let since = at(&self.since);
        let (end, verdict) = match (finishing, self.head.load(Ordering::Acquire)) {
            (Some(told), _) => (told.max(since).max(at(&self.moved)) + LINGER, Verdict::Drop),
            (None, true) => (since + limits.header_read, Verdict::Drop),
            (None, false) => (since + limits.idle, Verdict::Finish),
        };
        if now >= end { verdict } else { Verdict::Wait(end.min(now + soonest)) }
    }

    fn wait_since_now(&self) {
        self.since.store(self.milliseconds(), Ordering::Release);
    }

    fn milliseconds(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }
}

/// A request under way on a connection.
#[derive(Debug)]
pub(super) struct Exchange(Arc<Ongoing>);

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.head.store(false, Ordering::Release);
        self.0.wait_since_now();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(header_read: u64, idle: u64) -> Limits {
        let seconds = Duration::from_secs;
        Limits { header_read: seconds(header_read), idle: seconds(idle), ..Limits::default() }
    }

    #[test]
    fn a_connection_is_judged_by_what_it_waits_for() {
        let connections = Arc::new(Connections::default());
        let connection = connections.add();
        let ongoing = &connection.ongoing;
        let judge = |header_read, idle| ongoing.judge(&limits(header_read, idle), None);
        let waits = |verdict| matches!(verdict, Verdict::Wait(_));

        ongoing.speaks(true);
        assert_eq!(judge(0, 90), Verdict::Drop, "nothing came at all");
        assert!(waits(judge(32, 0)));
        let exchange = ongoing.enter();
        assert!(waits(judge(0, 0)), "busy");
        drop(exchange);
        assert_eq!(judge(32, 0), Verdict::Finish, "idle after a request");
        assert!(waits(judge(0, 90)));
        ongoing.bytes_came();
        assert_eq!(judge(0, 90), Verdict::Drop, "half a head");

        ongoing.speaks(false);
        ongoing.bytes_came();
        assert_eq!(judge(0, 0), Verdict::Finish, "HTTP/2 without requests");
        let told = Some(monotonic_now());
        assert!(waits(ongoing.judge(&limits(0, 0), told)), "a moment to finish");
    }

    #[tokio::test]
    async fn orders_reach_those_who_come_later() {
        let connections = Arc::new(Connections::default());
        let early = connections.add();
        connections.order(Order::Finish);
        assert_eq!(early.ongoing.ordered().await, Order::Finish);
        let late = connections.add();
        assert_eq!(late.ongoing.ordered().await, Order::Finish);
        connections.order(Order::Drop);
        assert_eq!(late.ongoing.ordered().await, Order::Drop);
        drop((early, late));
        connections.none_left().await;
    }
}
