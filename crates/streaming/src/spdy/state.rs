//! What a connection's streams are up to. No I/O: frames come in, frames are left to be sent.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;

use super::error::CreateError;
use super::frame::{self, Frame, MAX_STREAM, ResetStatus};
use super::headers::Deflater;

/// What all streams of a connection together may hold that nobody has read, but for one more read:
/// from here on the connection is not read.
pub const WINDOW: usize = 64 << 10;
/// What may wait to be sent, but for one more write: from here on nobody may write.
pub const MAX_OUT: usize = 64 << 10;
/// What may wait that answers the peer's frames: from here on the connection is not read. What streams
/// send does not count, or two sides that have much to say would wait for each other.
pub const MAX_REPLIES: usize = 16 << 10;
/// The largest frame of data that is sent: what Go's `io.Copy` moves at once.
pub const MAX_DATA: usize = 32 << 10;
/// The most streams that a peer may have open. A port forward has two for each connection.
pub const MAX_STREAMS: usize = 512;

/// How a stream came to its end, as far as the peer is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer has said all, or has closed the whole connection.
    Finished,
    /// The peer has reset the stream. Kubelets do so with streams that have ended well.
    Reset,
    /// The connection broke.
    Lost,
}

/// The state, shared by all who hold a part of a connection.
pub(super) struct Shared(Mutex<State>);

impl Shared {
    pub fn new(server: bool) -> Self {
        Shared(Mutex::new(State {
            server,
            streams: BTreeMap::new(),
            next: if server { 2 } else { 1 },
            seen: 0,
            incoming: VecDeque::new(),
            acceptor: None,
            out: BytesMut::new(),
            replies: BytesMut::new(),
            mute: false,
            deflater: Deflater::default(),
            unread: 0,
            driver: None,
            ended: None,
            handles: 1,
            ping: if server { 2 } else { 1 },
            pinged: false,
        }))
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct State {
    server: bool,
    streams: BTreeMap<u32, Box<Slot>>,
    /// The number of the next stream of our own.
    next: u32,
    /// The last number of a stream of the peer's.
    seen: u32,
    /// Streams of the peer's that nobody has accepted.
    pub incoming: VecDeque<(u32, HeaderMap)>,
    pub acceptor: Option<Waker>,
    /// What is to be sent.
    pub out: BytesMut,
    /// What is to be sent when there is room, as answers to the peer's frames.
    pub replies: BytesMut,
    /// Nothing more can be sent.
    pub mute: bool,
    deflater: Deflater,
    /// What streams hold.
    pub unread: usize,
    pub driver: Option<Waker>,
    pub ended: Option<Ending>,
    /// How many hold a part of the connection, but for the driver.
    handles: usize,
    /// The number of the next ping, and whether the last one was not answered.
    ping: u32,
    pinged: bool,
}

#[derive(Default)]
struct Slot {
    queue: BytesMut,
    replied: bool,
    /// Nothing more comes.
    ending: Option<Ending>,
    /// Nothing more is sent.
    finished: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Slot {
    fn end(&mut self, ending: Ending) {
        self.ending.get_or_insert(ending);
        self.finished |= ending != Ending::Finished;
        self.wake();
    }

    fn wake(&mut self) {
        wake(&mut self.reader);
        wake(&mut self.writer);
    }
}

impl State {
    /// Opens a stream, and asks the peer to.
    pub fn create(&mut self, headers: &HeaderMap) -> Result<u32, CreateError> {
        if self.ended.is_some() {
            return Err(CreateError::Closed);
        }
        let stream = self.next;
        if stream > MAX_STREAM {
            return Err(CreateError::Exhausted);
        }
        let written = frame::syn_stream(stream, headers, &mut self.deflater, &mut self.out);
        written.ok_or(CreateError::Exhausted)?;
        self.next += 2;
        self.streams.insert(stream, Box::default());
        wake(&mut self.driver);
        Ok(stream)
    }

    /// Tells the peer that its stream is accepted.
    pub fn reply(&mut self, stream: u32) {
        let Some(slot) = self.streams.get_mut(&stream) else { return };
        if self.ended.is_none() && !slot.replied && slot.ending != Some(Ending::Reset) {
            frame::syn_reply(stream, &mut self.deflater, &mut self.out);
        }
        slot.replied = true;
        wake(&mut self.driver);
    }

    /// Does what the peer says.
    pub fn apply(&mut self, frame: Frame<'_>) {
        match frame {
            Frame::Data { stream, bytes, fin } => self.data(stream, bytes, fin),
            Frame::SynStream { stream, headers, fin } => self.syn_stream(stream, headers, fin),
            Frame::SynReply { stream, fin } => {
                if let Some(slot) = self.streams.get_mut(&stream) {
                    slot.replied = true;
                    slot.wake();
                    self.fin(stream, fin);
                }
            }
            Frame::Headers { stream, fin } => self.fin(stream, fin),
            Frame::RstStream { stream, .. } => {
                if let Some(slot) = self.streams.get_mut(&stream) {
                    slot.end(Ending::Reset);
                }
            }
            Frame::Ping { id } if id.is_multiple_of(2) == self.server => self.pinged = false,
            Frame::Ping { id } => frame::ping(id, &mut self.replies),
            Frame::GoAway { .. } => self.end(Ending::Finished),
            Frame::Ignored => {}
        }
    }

    fn data(&mut self, stream: u32, bytes: &[u8], fin: bool) {
        // One that is gone is not worth an answer.
        let Some(slot) = self.streams.get_mut(&stream) else { return };
        if slot.ending.is_some() {
            return;
        }
        if !slot.replied && stream.is_multiple_of(2) == self.server {
            slot.end(Ending::Reset);
            return frame::rst_stream(stream, ResetStatus::PROTOCOL_ERROR, &mut self.replies);
        }
        if !bytes.is_empty() {
            slot.queue.extend_from_slice(bytes);
            self.unread += bytes.len();
            wake(&mut slot.reader);
        }
        self.fin(stream, fin);
    }

    fn fin(&mut self, stream: u32, fin: bool) {
        if let Some(slot) = self.streams.get_mut(&stream).filter(|_| fin) {
            slot.end(Ending::Finished);
        }
    }

    fn syn_stream(&mut self, stream: u32, headers: HeaderMap, fin: bool) {
        let theirs = stream.is_multiple_of(2) != self.server;
        if !theirs || stream <= self.seen {
            return frame::rst_stream(stream, ResetStatus::PROTOCOL_ERROR, &mut self.replies);
        }
        self.seen = stream;
        // Servers open none in Kubernetes.
        if !self.server || self.streams.len() >= MAX_STREAMS {
            return frame::rst_stream(stream, ResetStatus::REFUSED_STREAM, &mut self.replies);
        }
        self.streams.insert(stream, Box::default());
        self.incoming.push_back((stream, headers));
        self.fin(stream, fin);
        wake(&mut self.acceptor);
    }

    /// Ends all streams. What they hold can still be read.
    pub fn end(&mut self, ending: Ending) {
        self.ended.get_or_insert(ending);
        for slot in self.streams.values_mut() {
            slot.end(ending);
            slot.finished = true;
        }
        wake(&mut self.acceptor);
        wake(&mut self.driver);
    }

    /// Ends all streams and tells the peer.
    pub fn close(&mut self) {
        if self.ended.is_some() {
            return;
        }
        for (stream, slot) in &self.streams {
            if !slot.finished || slot.ending.is_none() {
                frame::rst_stream(*stream, ResetStatus::CANCEL, &mut self.out);
            }
        }
        frame::goaway(self.seen, &mut self.out);
        self.end(Ending::Finished);
    }

    /// Asks the peer for a sign of life, unless it still owes one.
    pub fn send_ping(&mut self) {
        if !self.pinged && self.ended.is_none() {
            self.pinged = true;
            frame::ping(self.ping, &mut self.out);
            self.ping = if self.ping > MAX_STREAM - 2 { self.ping % 2 + 2 } else { self.ping + 2 };
        }
    }

    /// Adds the replies to what is sent, if there is room.
    pub fn reply_now(&mut self) {
        if !self.replies.is_empty() && self.out.len() < MAX_OUT {
            let replies = std::mem::take(&mut self.replies);
            self.out.unsplit(replies);
        }
    }

    /// Lets those go on who wait for room to write.
    pub fn wake_writers(&mut self) {
        self.streams.values_mut().for_each(|slot| wake(&mut slot.writer));
    }

    pub fn hold(&mut self) {
        self.handles += 1;
    }

    pub fn release(&mut self) {
        self.handles -= 1;
        if self.handles == 0 {
            self.close();
        }
    }
}

/// What the holder of one stream asks for.
impl State {
    pub fn poll_opened(
        &mut self,
        stream: u32,
        context: &Context<'_>,
    ) -> Poll<Result<(), CreateError>> {
        let ended = self.ended;
        let Some(slot) = self.streams.get_mut(&stream) else {
            return Poll::Ready(Err(CreateError::Closed));
        };
        match slot.ending {
            _ if slot.replied => Poll::Ready(Ok(())),
            Some(_) if ended.is_some() => Poll::Ready(Err(CreateError::Closed)),
            Some(_) => Poll::Ready(Err(CreateError::Reset)),
            None => {
                slot.writer = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// All that a stream holds, or, with a limit, some of it; nothing at its end.
    pub fn poll_read(
        &mut self,
        stream: u32,
        limit: usize,
        context: &Context<'_>,
    ) -> Poll<Option<Bytes>> {
        let Some(slot) = self.streams.get_mut(&stream) else { return Poll::Ready(None) };
        if slot.queue.is_empty() {
            if slot.ending.is_some() {
                return Poll::Ready(None);
            }
            slot.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let bytes = match slot.queue.len() <= limit {
            true => std::mem::take(&mut slot.queue).freeze(),
            false => slot.queue.split_to(limit).freeze(),
        };
        self.consume(bytes.len());
        Poll::Ready(Some(bytes))
    }

    fn consume(&mut self, count: usize) {
        let full = self.unread >= WINDOW;
        self.unread -= count;
        if full && self.unread < WINDOW {
            wake(&mut self.driver);
        }
    }

    pub fn poll_ready(&mut self, stream: u32, context: &Context<'_>) -> Poll<io::Result<()>> {
        let (mute, room) = (self.mute, self.out.len() < MAX_OUT);
        match self.streams.get_mut(&stream) {
            Some(slot) if !mute && !slot.finished => {
                if slot.replied && room {
                    return Poll::Ready(Ok(()));
                }
                slot.writer = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Sends, whether there is room or not.
    pub fn send(&mut self, stream: u32, bytes: &[u8]) -> io::Result<()> {
        match self.streams.get(&stream) {
            Some(slot) if !self.mute && !slot.finished => {}
            _ => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        for part in bytes.chunks(MAX_DATA) {
            self.out.extend_from_slice(&frame::data_head(stream, false, part.len()));
            self.out.extend_from_slice(part);
        }
        wake(&mut self.driver);
        Ok(())
    }

    /// Says that nothing more is sent.
    pub fn finish(&mut self, stream: u32) {
        let Some(slot) = self.streams.get_mut(&stream) else { return };
        if !slot.finished {
            slot.finished = true;
            self.out.extend_from_slice(&frame::data_head(stream, true, 0));
            wake(&mut self.driver);
        }
    }

    pub fn ending(&self, stream: u32) -> Option<Ending> {
        self.streams.get(&stream).and_then(|slot| slot.ending)
    }

    /// Forgets a stream; one that is not at its end is reset.
    pub fn remove(&mut self, stream: u32, status: ResetStatus) {
        let Some(slot) = self.streams.remove(&stream) else { return };
        if self.ended.is_none() && !(slot.finished && slot.ending.is_some()) {
            frame::rst_stream(stream, status, &mut self.out);
            wake(&mut self.driver);
        }
        self.consume(slot.queue.remaining());
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
