//! Body of a watch: the initial state, then events. At most one piece is buffered for a client; events that it has not
//! read yet stay in the cache, which all watchers share.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use kevel_clock::timer_now;
use kevel_store::Revision;
use kevel_store::cache::{
    Cache, CacheError, Delivery, LOG_AGE, Object, Selection, Snapshot, Watcher,
};
use tokio::time::{Interval, MissedTickBehavior, Sleep, sleep};

use super::watch::Encoder;
use kevel_registry::store::VersionSelector;
use kevel_trace::TraceSpan;

use crate::body::{PIECE, Piece, Pieces};
use crate::flowcontrol::WatchSeats;
use crate::lease::Lease;
use kevel_component::future::Pending;

/// Interval of bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Most objects examined for one piece of the initial state: few of them may be selected.
const INITIAL_BATCH: usize = 500;

/// State of a running watch.
pub(super) struct Stream {
    initial: Option<Initial>,
    watcher: Watcher,
    /// Part of the field selector that the watcher's selection cannot match.
    of_version: Option<VersionSelector>,
    encoder: Encoder,
    bookmarks: Option<Interval>,
    /// End of the watch. Taken while a piece is made.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Flow control seats of the initialization, and the registration among the watches.
    seats: Option<WatchSeats>,
    /// Spans that end with the initial state.
    spans: Option<[TraceSpan; 2]>,
    /// Whether objects were taken and not sent yet: the watcher's revision is then ahead of the client's.
    unsent: bool,
    over: bool,
}

/// Initial state of a watch.
///
/// A snapshot keeps replaced objects alive. It is held for a client that reads as long as the log has all changes after
/// it, and so those objects too: once they are dropped, the watch could not go on anyway.
struct Initial {
    snapshot: Lease<Snapshot>,
    revision: Revision,
    /// Last key that was sent.
    after: Option<String>,
    end_bookmark: bool,
}

impl Stream {
    /// A watch from the watcher's revision on, for at most `limit`.
    pub fn new(watcher: Watcher, encoder: Encoder, limit: Duration) -> Self {
        Stream {
            initial: None,
            watcher,
            of_version: None,
            encoder,
            bookmarks: None,
            deadline: Some(Box::pin(sleep(limit))),
            seats: None,
            spans: None,
            unsent: false,
            over: false,
        }
    }

    /// Adds the part of the field selector that depends on the requested version.
    pub fn selecting(mut self, of_version: Option<VersionSelector>) -> Self {
        self.of_version = of_version;
        self
    }

    /// Adds the flow control seats, which are released after initialization.
    pub fn with_seats(mut self, seats: Option<WatchSeats>) -> Self {
        self.seats = seats;
        self
    }

    /// Adds spans of the initial state.
    pub fn with_spans(mut self, spans: Option<[TraceSpan; 2]>) -> Self {
        self.spans = spans;
        self
    }

    /// Adds periodic bookmarks.
    pub fn with_bookmarks(mut self) -> Self {
        let first = timer_now() + BOOKMARK_INTERVAL;
        let mut timer = tokio::time::interval_at(first, BOOKMARK_INTERVAL);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.bookmarks = Some(timer);
        self
    }

    /// Adds the initial state, and the bookmark at its end if `end_bookmark`.
    pub fn beginning_with(mut self, snapshot: Snapshot, end_bookmark: bool) -> Self {
        let revision = snapshot.revision();
        let snapshot = Lease::new(snapshot);
        self.initial = Some(Initial { snapshot, revision, after: None, end_bookmark });
        self
    }

    /// The watch as a response body.
    pub fn pieces(mut self) -> WatchPieces {
        self.note_progress();
        WatchPieces { next: Some(Box::pin(self.step())) }
    }

    /// Makes the next piece and returns the remaining stream. The deadline also holds while a conversion webhook is
    /// called.
    async fn step(mut self) -> (Bytes, Option<Stream>) {
        if self.over {
            return (Bytes::new(), None);
        }
        let Some(mut deadline) = self.deadline.take() else { return (Bytes::new(), None) };
        let piece = tokio::select! {
            biased;
            piece = self.piece() => piece,
            () = deadline.as_mut() => self.end(),
        };
        self.deadline = Some(deadline);
        (piece, Some(self))
    }

    /// The last piece of a watch whose timeout has passed.
    fn end(&mut self) -> Bytes {
        let mut out = Vec::new();
        if self.bookmarks.is_some() && !self.unsent {
            let revision = self.watcher.caught_up();
            self.encoder.bookmark(revision, false, &mut out);
        }
        self.over = true;
        out.into()
    }

    async fn piece(&mut self) -> Bytes {
        let mut out = Vec::new();
        if let Some(initial) = self.initial.take() {
            self.unsent = true;
            self.send_initial(initial, &mut out).await;
            self.unsent = self.initial.is_some();
            self.note_progress();
            return out.into();
        }
        let mut seen = Vec::new();
        let tick = async {
            match &mut self.bookmarks {
                Some(timer) => timer.tick().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            result = self.watcher.next(&mut seen) => match result {
                Ok(()) => return self.events(seen).await,
                Err(error) => self.fail(error, &mut out),
            },
            _ = tick => {
                let revision = self.watcher.caught_up();
                self.encoder.bookmark(revision, false, &mut out);
            }
        }
        out.into()
    }

    /// Encodes the deliveries that are selected.
    async fn events(&mut self, mut seen: Vec<Delivery>) -> Bytes {
        self.unsent = true;
        if let Some(of_version) = &self.of_version {
            seen = of_version.narrow_all(seen).await;
        }
        // The client can go on only from a new list.
        if let Some(lost) = seen.iter().position(Delivery::is_lost) {
            seen.truncate(lost + 1);
            self.over = true;
        }
        let piece = match seen.as_slice() {
            [one] => self.encoder.event(one).await,
            seen => {
                let mut out = Vec::new();
                for one in seen {
                    out.extend_from_slice(&self.encoder.event(one).await);
                }
                out.into()
            }
        };
        self.unsent = false;
        piece
    }

    /// Holds the seats and spans until the initial state is sent.
    fn note_progress(&mut self) {
        if self.initial.is_none()
            && let Some([serving, _]) = self.spans.take()
        {
            serving.event("Writing initial events done");
        }
        let Some(seats) = &mut self.seats else { return };
        match self.initial.as_ref().map(|initial| &initial.after) {
            None => seats.initialized(),
            Some(Some(_)) => seats.limit(),
            Some(None) => {}
        }
    }

    fn fail(&mut self, error: CacheError, out: &mut Vec<u8>) {
        self.encoder.failure(error, out);
        self.over = true;
    }

    async fn send_initial(&mut self, mut initial: Initial, out: &mut Vec<u8>) {
        let (selection, after) = (self.watcher.selection(), initial.after.as_deref());
        // A clone costs one reference count. Selecting is charged, so the lease may end meanwhile.
        let snapshot = initial.snapshot.with(|snapshot| snapshot.clone());
        let Some(batch) =
            snapshot.map(|snapshot| Batch::take(self.watcher.cache(), &snapshot, selection, after))
        else {
            let (requested, oldest) = (initial.revision, self.watcher.cache().oldest());
            return self.fail(CacheError::Expired { requested, oldest }, out);
        };
        self.encoder.prepare(&batch.objects).await;
        for object in &batch.objects {
            if let Some(of_version) = &self.of_version
                && !of_version.selects(Some(object)).await
            {
                continue;
            }
            self.encoder.initial(object, out).await;
        }
        if batch.more {
            initial.after = batch.last;
            initial.snapshot.until(forgotten(self.watcher.cache().clone(), initial.revision));
            self.initial = Some(initial);
        } else if initial.end_bookmark {
            self.encoder.bookmark(initial.revision, true, out);
        }
    }
}

/// Objects of a snapshot for one piece.
#[derive(Default)]
struct Batch {
    objects: Vec<Arc<Object>>,
    /// Key of the last object that was examined.
    last: Option<String>,
    more: bool,
}

impl Batch {
    fn take(
        cache: &Arc<Cache>,
        snapshot: &Snapshot,
        selection: &Selection,
        after: Option<&str>,
    ) -> Self {
        let (mut batch, mut last, mut size) = (Batch::default(), None, 0);
        for (count, object) in cache.candidates(snapshot, selection, after).enumerate() {
            if size >= PIECE || count == INITIAL_BATCH {
                batch.more = true;
                break;
            }
            last = Some(object);
            if selection.matches(object) {
                size += object.wire().map_or(0, Bytes::len);
                batch.objects.push(object.clone());
            }
        }
        batch.last = last.map(|object| object.key().to_owned());
        batch
    }
}

/// Completes when the log no longer has all changes after `revision`.
async fn forgotten(cache: Arc<Cache>, revision: Revision) {
    loop {
        // Younger changes are in the log, unless it overflows.
        sleep(LOG_AGE).await;
        if cache.oldest() > revision {
            return;
        }
    }
}

/// The watch as a response body.
pub(super) struct WatchPieces {
    next: Option<Pending<'static, (Bytes, Option<Stream>)>>,
}

impl Pieces for WatchPieces {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        loop {
            let Some(next) = &mut self.next else { return Poll::Ready(None) };
            let Poll::Ready((piece, rest)) = next.as_mut().poll(context) else {
                return Poll::Pending;
            };
            self.next = rest.map(|stream| Box::pin(stream.step()) as Pending<'static, _>);
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(piece)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use kevel_store::Engine;
    use kevel_store::cache::{At, Caches, JsonDecode, KeyOrder, LOG_MAX_BYTES, Resource};
    use kevel_store::embedded::{Embedded, Options};

    use super::*;

    const KEY: &[u8] = b"/registry/maps/a";
    /// Large, so that a few writes exceed the log.
    const LARGE: usize = 1 << 20;

    async fn write(engine: &Embedded, cache: &Cache, expected: Revision) -> Revision {
        let value = format!(r#"{{"metadata":{{"name":"a"}},"data":"{}"}}"#, "x".repeat(LARGE));
        let written = match expected.0 {
            0 => engine.create(KEY, value.into(), None).await,
            _ => engine.update(KEY, value.into(), expected, None).await,
        };
        cache.snapshot(At::Consistent).await.unwrap();
        written.unwrap()
    }

    #[tokio::test]
    async fn initial_state_is_leased_while_the_log_covers_it() {
        let engine = Arc::new(Embedded::memory(Options::default()).unwrap());
        let caches = Caches::start(engine.clone(), "/registry/");
        let cache = caches.add(Resource {
            prefix: "/registry/maps/".to_owned(),
            decode: Arc::new(JsonDecode { order: KeyOrder::Struct }),
            fields: Arc::new([]),
            indexed: Vec::new(),
        });
        cache.loaded().await.unwrap();
        let first = write(&engine, &cache, Revision(0)).await;
        let mut waiting = Box::pin(forgotten(cache.clone(), first));
        let mut later = async || {
            let mut is_over = || {
                let mut context = Context::from_waker(Waker::noop());
                waiting.as_mut().poll(&mut context).is_ready()
            };
            assert!(!is_over(), "its time is not up");
            tokio::time::pause();
            tokio::time::advance(LOG_AGE + Duration::from_secs(1)).await;
            tokio::time::resume();
            is_over()
        };
        let mut last = write(&engine, &cache, first).await;
        assert!(!later().await, "what came after it is known");
        for _ in 0..LOG_MAX_BYTES / LARGE + 1 {
            last = write(&engine, &cache, last).await;
        }
        assert!(cache.oldest() > first);
        assert!(later().await, "what came after it is not known any more");
    }
}
