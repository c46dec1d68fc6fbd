//! State of connections, and orders to them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kevel_clock::monotonic_now;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::Limits;

/// Time for a client to read its last responses and GOAWAY, from the last byte transferred.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// Order to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    GoOn,
    /// End after the running requests.
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
    /// Registers a new connection, until the result is dropped.
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

    /// Gives an order to all connections, present and future.
    pub fn order(&self, order: Order) {
        let mut open = self.lock();
        open.order = Some(order);
        for connection in open.connections.values() {
            connection.order(order);
        }
    }

    /// Orders present connections to end after their running requests. Idle HTTP/1.1 connections are left open: closing
    /// them would race with a client's next request.
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

/// Registration of a connection.
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

/// State of a connection.
#[derive(Debug)]
pub(super) struct Ongoing {
    start: Instant,
    in_flight: AtomicUsize,
    /// Milliseconds at which the wait for a request, or for the rest of one, began.
    since: AtomicU64,
    /// Milliseconds at which bytes were last transferred, while the connection finishes.
    moved: AtomicU64,
    /// Whether a part of a request's head has arrived.
    head: AtomicBool,
    http1: AtomicBool,
    order: AtomicU8,
    ordered: Notify,
    /// The socket, after reading and writing have ended.
    left: Mutex<Option<TcpStream>>,
}

/// Decision about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing; decide again at this time.
    Wait(Instant),
    /// Idle for too long.
    Finish,
    /// The client is too slow.
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

    /// The handshake has ended. With HTTP/1, the time for the first request's head begins here.
    pub fn speaks(&self, http1: bool) {
        self.wait_since_now();
        self.head.store(http1, Ordering::Release);
        self.http1.store(http1, Ordering::Release);
    }

    /// Records received bytes. With HTTP/2 they cannot be attributed, since a client also pings.
    pub fn bytes_came(&self) {
        self.bytes_moved();
        if self.http1.load(Ordering::Relaxed)
            && self.in_flight.load(Ordering::Relaxed) == 0
            && !self.head.swap(true, Ordering::AcqRel)
        {
            self.wait_since_now();
        }
    }

    /// Records transferred bytes. A response that is complete here may take long to be sent.
    pub fn bytes_moved(&self) {
        if self.order.load(Ordering::Relaxed) != Order::GoOn as u8 {
            self.moved.store(self.milliseconds(), Ordering::Release);
        }
    }

    /// Registers a request; its response has been sent when the result is dropped.
    pub fn enter(self: &Arc<Self>) -> Exchange {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        Exchange(self.clone())
    }

    /// Time waited for a request.
    pub fn waited(&self) -> Duration {
        let now = self.milliseconds();
        Duration::from_millis(now.saturating_sub(self.since.load(Ordering::Acquire)))
    }

    /// Number of running requests.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub fn order(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
        self.ordered.notify_one();
    }

    /// Waits for the next order.
    pub async fn ordered(&self) -> Order {
        self.ordered.notified().await;
        match self.order.load(Ordering::Acquire) {
            2.. => Order::Drop,
            1 => Order::Finish,
            0 => Order::GoOn,
        }
    }

    /// Gives the socket back after the connection has ended.
    pub fn leave(&self, stream: TcpStream) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }

    /// The socket, if it was given back.
    pub fn left(&self) -> Option<TcpStream> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Completes when the connection must end at once.
    pub async fn dropped(&self) {
        while self.ordered().await != Order::Drop {}
    }

    /// Decides about the connection. One that was ordered to finish is waited for until its requests have ended, and
    /// [`LINGER`].
    pub fn judge(&self, limits: &Limits, finishing: Option<Instant>) -> Verdict {
        let now = monotonic_now();
        let http1 = self.http1.load(Ordering::Acquire);
        let busy = self.in_flight.load(Ordering::Acquire) > 0;
        // A head that begins after this decision has at least that long.
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

/// A running request of a connection.
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
    async fn orders_reach_later_connections() {
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
