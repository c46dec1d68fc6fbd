//! State of a connection and its streams, without I/O: frames come in, frames are queued to be sent.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;

use super::error::CreateError;
use super::frame::{self, Frame, MAX_STREAM, ResetStatus};
use super::headers::Deflater;

/// Maximum unread bytes of all streams of a connection, plus one read: with more the connection is not read.
pub const WINDOW: usize = 64 << 10;
/// Maximum bytes that wait to be sent, plus one write: with more streams cannot write.
pub const MAX_OUT: usize = 64 << 10;
/// Maximum bytes of waiting replies to the peer's frames: with more the connection is not read. Data of streams do not
/// count, or two sides that both send much could block each other.
pub const MAX_REPLIES: usize = 16 << 10;
/// Maximum size of a sent data frame: the buffer size of Go's `io.Copy`.
pub const MAX_DATA: usize = 32 << 10;
/// Maximum number of open streams of a peer. A port forward has two for each connection.
pub const MAX_STREAMS: usize = 512;

/// End of a stream, as the peer caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer has ended its side, or closed the whole connection.
    Finished,
    /// The peer has reset the stream. Kubelets also reset streams that have ended normally.
    Reset,
    /// The connection failed.
    Lost,
}

/// State shared by the handles of a connection and its driver.
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
    /// ID of the next own stream.
    next: u32,
    /// The last stream ID of the peer.
    seen: u32,
    /// Streams of the peer that were not accepted yet.
    pub incoming: VecDeque<(u32, HeaderMap)>,
    pub acceptor: Option<Waker>,
    /// Bytes to be sent.
    pub out: BytesMut,
    /// Replies to the peer's frames, which are sent when there is room.
    pub replies: BytesMut,
    /// Whether sending has become impossible.
    pub mute: bool,
    deflater: Deflater,
    /// Number of unread bytes of all streams.
    pub unread: usize,
    pub driver: Option<Waker>,
    pub ended: Option<Ending>,
    /// Number of handles of the connection and its streams, without the driver.
    handles: usize,
    /// ID of the next ping, and whether a reply to the last one is missing.
    ping: u32,
    pinged: bool,
}

#[derive(Default)]
struct Slot {
    queue: BytesMut,
    replied: bool,
    /// End of the peer's side.
    ending: Option<Ending>,
    /// Whether the own side has ended.
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
    /// Opens a stream and sends SYN_STREAM.
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

    /// Sends SYN_REPLY for an accepted stream.
    pub fn reply(&mut self, stream: u32) {
        let Some(slot) = self.streams.get_mut(&stream) else { return };
        if self.ended.is_none() && !slot.replied && slot.ending != Some(Ending::Reset) {
            frame::syn_reply(stream, &mut self.deflater, &mut self.out);
        }
        slot.replied = true;
        wake(&mut self.driver);
    }

    /// Applies a received frame.
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
        // Data of a removed stream get no reply.
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
        // Servers open no streams in Kubernetes.
        if !self.server || self.streams.len() >= MAX_STREAMS {
            return frame::rst_stream(stream, ResetStatus::REFUSED_STREAM, &mut self.replies);
        }
        self.streams.insert(stream, Box::default());
        self.incoming.push_back((stream, headers));
        self.fin(stream, fin);
        wake(&mut self.acceptor);
    }

    /// Ends all streams. Received data can still be read.
    pub fn end(&mut self, ending: Ending) {
        self.ended.get_or_insert(ending);
        for slot in self.streams.values_mut() {
            slot.end(ending);
            slot.finished = true;
        }
        wake(&mut self.acceptor);
        wake(&mut self.driver);
    }

    /// Ends all streams with RST_STREAM, and the connection with GOAWAY.
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

    /// Sends a ping, unless the reply to the last one is missing.
    pub fn send_ping(&mut self) {
        if !self.pinged && self.ended.is_none() {
            self.pinged = true;
            frame::ping(self.ping, &mut self.out);
            self.ping = if self.ping > MAX_STREAM - 2 { self.ping % 2 + 2 } else { self.ping + 2 };
        }
    }

    /// Appends the replies to the output, if there is room.
    pub fn reply_now(&mut self) {
        if !self.replies.is_empty() && self.out.len() < MAX_OUT {
            let replies = std::mem::take(&mut self.replies);
            self.out.unsplit(replies);
        }
    }

    /// Wakes the streams that wait for room to write.
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

/// Operations of one stream's handle.
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

    /// Received data of a stream, at most `limit` bytes; `None` at its end.
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

    /// Queues data, whether there is room or not.
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

    /// Ends the own side of a stream.
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

    /// Removes a stream; one that has not ended is reset.
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
