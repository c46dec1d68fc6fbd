//! Watches that survive a broken connection: they resume after the last event.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{sleep, timeout},
};
use tonic::{Code, Status};

use super::{
    RANGE,
    client::{Client, RETRY_PAUSE, Retry, WatchStream, store_error},
    entry, header_revision,
    proto::{
        self, EventType, RangeRequest, RangeResponse, WatchCreateRequest, WatchProgressRequest,
        WatchRequestUnion,
    },
    revision,
};
use crate::{Error, Event, Pending, Result, Revision, WatchResponse, WatchSource};

/// Number of responses that wait for the reader; beyond it etcd is made to wait.
const BACKLOG: usize = 16;

type Requests = Arc<Mutex<Option<mpsc::Sender<proto::WatchRequest>>>>;

/// The store's side of a watch. A task reads the stream, so that dropping a call of `next` cannot lose a response.
pub(super) struct EtcdWatch {
    responses: mpsc::Receiver<Result<WatchResponse>>,
    requests: Requests,
    task: AbortHandle,
}

impl EtcdWatch {
    /// Makes a watch and the task that feeds it, which `spawn` is to start.
    pub(super) fn start(
        client: Arc<Client>,
        key: Vec<u8>,
        range_end: Vec<u8>,
        after: Revision,
        spawn: impl FnOnce(Pending<'static, ()>) -> AbortHandle,
    ) -> EtcdWatch {
        let (sender, responses) = mpsc::channel(BACKLOG);
        let requests = Requests::default();
        let mut follower = Follower {
            client,
            key,
            range_end,
            after,
            told: Revision::default(),
            requests: requests.clone(),
        };
        let task = spawn(Box::pin(async move {
            if let Err(error) = follower.follow(&sender).await {
                let _ = sender.send(Err(error)).await;
            }
        }));
        EtcdWatch { responses, requests, task }
    }
}

impl WatchSource for EtcdWatch {
    fn next(&mut self) -> Pending<'_, Result<WatchResponse>> {
        Box::pin(async { self.responses.recv().await.unwrap_or_else(|| Err(Error::closed())) })
    }

    fn request_progress(&mut self) {
        if let Some(requests) = &*self.requests.lock().unwrap_or_else(PoisonError::into_inner) {
            ask_progress(requests);
        }
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follower {
    client: Arc<Client>,
    key: Vec<u8>,
    range_end: Vec<u8>,
    /// Revision up to which every event has been delivered.
    after: Revision,
    /// The newest revision in a response of etcd; `after` may be one that etcd never had.
    told: Revision,
    requests: Requests,
}

impl Follower {
    /// Reads the stream until the receiver is dropped or a permanent error occurs.
    async fn follow(&mut self, sender: &mpsc::Sender<Result<WatchResponse>>) -> Result<()> {
        loop {
            match self.open().await? {
                Ok(mut stream) => {
                    self.set_requests(stream.trusted.then(|| stream.requests.clone()));
                    while let Some(response) = self.receive(&mut stream).await? {
                        if sender.send(Ok(response)).await.is_err() {
                            return Ok(());
                        }
                    }
                    self.set_requests(None);
                    self.client.leave(stream.place);
                }
                Err(status) if is_final(&status) => return Err(store_error(status)),
                Err(_) => {}
            }
            if sender.is_closed() {
                return Ok(());
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Opens a stream after the last delivered revision. Fails if etcd's revision is lower than before: it was restored
    /// from a backup, and would send nothing until it reaches the old revision again.
    async fn open(&self) -> Result<Result<WatchStream, Status>> {
        if self.told != Revision::default() {
            let request = RangeRequest { key: self.key.clone(), ..RangeRequest::default() };
            let answer: RangeResponse = match self.client.call(RANGE, request, Retry::Always).await
            {
                Ok(answer) => answer,
                Err(status) => return Ok(Err(status)),
            };
            let (requested, current) = (self.told, header_revision(answer.header));
            if current < requested {
                return Err(Error::FutureRevision { requested, current });
            }
        }
        Ok(self.client.watch(self.create_request()).await)
    }

    /// The next response; `None` when the stream has to be opened again.
    async fn receive(&mut self, stream: &mut WatchStream) -> Result<Option<WatchResponse>> {
        loop {
            let response = match self.message(stream).await {
                Ok(Some(response)) => response,
                Ok(None) => return Ok(None),
                Err(status) if is_final(&status) => return Err(store_error(status)),
                Err(_) => return Ok(None),
            };
            if response.compact_revision != 0 {
                let compacted = revision(response.compact_revision);
                return Err(Error::Compacted { requested: self.after, compacted });
            }
            if response.canceled {
                // The member lost its leader or is shutting down: try another one.
                return match response.cancel_reason.contains("permission denied") {
                    true => Err(Error::Unavailable(format!("etcd: {}", response.cancel_reason))),
                    false => Ok(None),
                };
            }
            if response.created || (response.events.is_empty() && !stream.trusted) {
                continue;
            }
            return self.accept(response).map(Some);
        }
    }

    /// The next message; `None` at the end. A member that sends nothing is asked for progress, and one that does not
    /// answer is given up within the request timeout, before its connection is found dead. The progress of an old
    /// member is ignored, but its answer counts as a sign of life.
    async fn message(
        &self,
        stream: &mut WatchStream,
    ) -> Result<Option<proto::WatchResponse>, Status> {
        for _ in 0..2 {
            match timeout(self.client.timeout() / 2, stream.responses.message()).await {
                Ok(message) => return message,
                Err(_) => ask_progress(&stream.requests),
            }
        }
        Ok(None)
    }

    fn accept(&mut self, response: proto::WatchResponse) -> Result<WatchResponse> {
        let mut events = Vec::with_capacity(response.events.len());
        for event in response.events {
            events.push(self.event(event)?);
        }
        let reached = match events.last() {
            Some(event) => event.revision,
            None => response.header.map_or(Revision(0), |header| revision(header.revision)),
        };
        self.after = self.after.max(reached);
        self.told = self.told.max(reached);
        Ok(WatchResponse { events, revision: reached })
    }

    fn event(&self, event: proto::Event) -> Result<Event> {
        let deleted = event.r#type == i32::from(EventType::Delete);
        let (Some(kv), previous) = (event.kv, event.prev_kv.map(entry)) else {
            return Err(Error::Unavailable("etcd sent an event without a key".into()));
        };
        let changed = revision(kv.mod_revision);
        let created_here = kv.create_revision == kv.mod_revision && !deleted;
        if previous.is_none() && !created_here {
            // The previous value is compacted, so earlier events may be missing as well.
            return Err(Error::Compacted { requested: self.after, compacted: changed });
        }
        Ok(Event {
            key: Bytes::copy_from_slice(&kv.key),
            revision: changed,
            current: (!deleted).then(|| entry(kv)),
            previous,
            unreadable: None,
        })
    }

    fn create_request(&self) -> proto::WatchRequest {
        let create = WatchCreateRequest {
            key: self.key.clone(),
            range_end: self.range_end.clone(),
            start_revision: super::signed(self.after.next()),
            progress_notify: true,
            prev_kv: true,
        };
        proto::WatchRequest { request: Some(WatchRequestUnion::Create(create)) }
    }

    fn set_requests(&self, requests: Option<mpsc::Sender<proto::WatchRequest>>) {
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner) = requests;
    }
}

fn ask_progress(requests: &mpsc::Sender<proto::WatchRequest>) {
    let request = WatchRequestUnion::Progress(WatchProgressRequest {});
    let _ = requests.try_send(proto::WatchRequest { request: Some(request) });
}

/// Whether a retry would get the same error.
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::PermissionDenied
            | Code::Unauthenticated
            | Code::InvalidArgument
            | Code::Unimplemented
    )
}
