//! The etcd engine: the store contract on etcd, with the reference's keys and values (upstream: storage/etcd3).

mod client;
mod codec;
mod compact;
mod contents;
mod dial;
mod import;
mod lease;
mod proto;
mod reach;
mod spans;
mod watch;

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use kevel_compute::Metered;
use tokio::task::{AbortHandle, JoinSet};
use tonic::Status;

pub use dial::{Connection, Dial};
pub use lease::{LEASE_OBJECTS, LeaseOptions};
pub use reach::{SilentMember, Unreachable};
pub(crate) use {contents::Contents, import::Import};

use self::{
    client::{Client, Retry, check_size, is_compacted, is_future, store_error},
    compact::Compactor,
    lease::Leases,
    proto::{
        CompactionRequest, CompactionResponse, Compare, DeleteRangeRequest, KeyValue, PutRequest,
        RangeRequest, Request, Response, TxnRequest, TxnResponse,
    },
    watch::EtcdWatch,
};
use crate::{
    Engine, Entry, Error, GetResponse, Pending, RangeOptions, RangeResponse, Result, Revision,
    Watch, deaths::Deaths, keys, prefix_end,
};

const RANGE: &str = "/etcdserverpb.KV/Range";
const TXN: &str = "/etcdserverpb.KV/Txn";
const COMPACT: &str = "/etcdserverpb.KV/Compact";

/// Options of the etcd engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// The client URLs of the members.
    pub endpoints: Vec<String>,
    /// PEM files for `https` endpoints.
    pub tls: Option<TlsFiles>,
    /// Custom dialer; `None`: members are reached directly.
    pub dial: Option<Dial>,
    /// Key prefix; here it only determines the key that the health check reads.
    pub prefix: String,
    /// Compaction interval; `None` leaves compaction to others.
    pub compaction_interval: Option<Duration>,
    /// Lease sharing.
    pub leases: LeaseOptions,
    /// Maximum time of one request, with its retries.
    pub request_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            endpoints: Vec::new(),
            tls: None,
            dial: None,
            prefix: "/registry".into(),
            compaction_interval: Some(Duration::from_secs(5 * 60)),
            leases: LeaseOptions::default(),
            request_timeout: Duration::from_secs(10),
        }
    }
}

/// PEM files of the TLS connection to etcd.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// CA bundle that etcd's certificate is verified with.
    pub trusted_ca: PathBuf,
    /// Client certificate and key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// A store in an etcd cluster.
pub struct Etcd {
    client: Arc<Client>,
    options: Options,
    leases: Leases,
    compacted: Arc<AtomicU64>,
    /// Whether etcd is known to hold no incomplete import.
    whole: AtomicBool,
    /// Background tasks that have ended unexpectedly.
    deaths: Deaths,
    /// Watches and background tasks; `None` once closed.
    tasks: Arc<Mutex<Option<JoinSet<()>>>>,
}

impl Etcd {
    /// Prepares the engine without waiting for the cluster: see [`Engine::health`]. Must be called within a tokio
    /// runtime.
    pub async fn connect(options: Options) -> Result<Etcd> {
        let client = Arc::new(Client::new(&options)?);
        let etcd = Etcd {
            leases: Leases::new(options.leases),
            client: client.clone(),
            options,
            compacted: Arc::default(),
            whole: AtomicBool::new(false),
            deaths: Deaths::default(),
            tasks: Arc::new(Mutex::new(Some(JoinSet::new()))),
        };
        if let Some(interval) = etcd.options.compaction_interval {
            let compactor = Compactor::new(client.clone(), etcd.compacted.clone());
            let work = compactor.run(interval);
            spawn(&etcd.tasks, Box::pin(etcd.deaths.clone().watch_over("the compactor", work)))?;
        }
        let (tasks, watcher) = (etcd.tasks.clone(), client.clone());
        let watch = move |key, range_end, after| {
            EtcdWatch::start(watcher.clone(), key, range_end, after, |task| detached(&tasks, task))
        };
        let work = compact::follow(client, etcd.compacted.clone(), watch);
        let work = etcd.deaths.clone().watch_over("the follower of compactions", work);
        spawn(&etcd.tasks, Box::pin(work))?;
        Ok(etcd)
    }

    /// Checks that any member answers.
    pub async fn reach(&self) -> Result<(), Unreachable> {
        reach::reach(&self.client).await
    }

    /// Refuses an etcd with an incomplete import: see [`import`].
    async fn require_whole(&self) -> Result<()> {
        if !self.whole.load(Ordering::Relaxed) {
            import::require_whole(&self.client).await?;
            self.whole.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn read(&self, request: RangeRequest) -> Result<proto::RangeResponse> {
        self.require_whole().await?;
        let requested = revision(request.revision);
        match self.client.call(RANGE, request, Retry::Always).await {
            Ok(response) => Ok(response),
            Err(status) => Err(self.revision_error(status, requested).await),
        }
    }

    /// Completes errors about revisions with the revisions that etcd leaves out.
    async fn revision_error(&self, status: Status, requested: Revision) -> Error {
        if is_compacted(&status) {
            let known = Revision(self.compacted.load(Ordering::Acquire));
            return Error::Compacted { requested, compacted: known.max(requested.next()) };
        }
        if is_future(&status) {
            let current = self.current_revision().await.unwrap_or_default();
            return Error::FutureRevision { requested, current };
        }
        store_error(status)
    }

    /// Carries out `write` if `key` was last written at `expected` (0: does not exist); otherwise returns the present
    /// entry.
    async fn write_if(
        &self,
        key: &[u8],
        expected: i64,
        write: Request,
    ) -> Result<Result<Revision, Option<Entry>>> {
        self.require_whole().await?;
        let read = RangeRequest { key: key.into(), ..RangeRequest::default() };
        let transaction = TxnRequest {
            compare: vec![Compare::mod_revision(key, expected)],
            success: vec![write.into()],
            failure: vec![Request::Range(read).into()],
        };
        check_size(&transaction)?;
        let answer: TxnResponse =
            self.client.call(TXN, transaction, Retry::Unsent).await.map_err(store_error)?;
        if answer.succeeded {
            return Ok(Ok(header_revision(answer.header)));
        }
        let found = answer.responses.into_iter().find_map(|op| match op.response {
            Some(Response::Range(range)) => range.kvs.into_iter().next(),
            None => None,
        });
        Ok(Err(found.map(entry)))
    }

    async fn put(
        &self,
        key: &[u8],
        value: Bytes,
        expected: i64,
        ttl: Option<Duration>,
    ) -> Result<Result<Revision, Option<Entry>>> {
        kevel_trace::event("TransformToStorage succeeded");
        let lease = self.leases.lease(&self.client, ttl).await?;
        if expected != 0 {
            kevel_trace::event("Transaction prepared");
        }
        let put = PutRequest { key: key.into(), value: value.into(), lease };
        self.write_if(key, expected, Request::Put(put)).await
    }

    fn abort_tasks(&self) {
        *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Engine for Etcd {
    fn get<'a>(&'a self, key: &'a [u8], at: Option<Revision>) -> Pending<'a, Result<GetResponse>> {
        Box::pin(async move {
            let revision = at.map_or(0, signed);
            let request = RangeRequest { key: key.into(), revision, ..RangeRequest::default() };
            let response = self.read(request).await?;
            Ok(GetResponse {
                entry: response.kvs.into_iter().next().map(entry),
                revision: header_revision(response.header),
            })
        })
    }

    fn range<'a>(
        &'a self,
        prefix: &'a [u8],
        options: RangeOptions,
    ) -> Pending<'a, Result<RangeResponse>> {
        Box::pin(async move {
            let (mut key, range_end) = key_range(prefix);
            if let Some(after) = options.after.as_deref().filter(|after| *after >= prefix) {
                key = [after, &[0]].concat();
            }
            let response = self
                .read(RangeRequest {
                    key,
                    range_end,
                    limit: i64::try_from(options.limit).unwrap_or(i64::MAX),
                    revision: options.revision.map_or(0, signed),
                    ..RangeRequest::default()
                })
                .await?;
            let total = u64::try_from(response.count).unwrap_or(0);
            let remaining = total.saturating_sub(response.kvs.len() as u64);
            let current = header_revision(response.header);
            Ok(RangeResponse {
                entries: response.kvs.into_iter().map(entry).collect(),
                more: response.more,
                damaged: Vec::new(),
                remaining: Some(remaining),
                revision: options.revision.unwrap_or(current),
            })
        })
    }

    fn count<'a>(&'a self, prefix: &'a [u8]) -> Pending<'a, Result<u64>> {
        Box::pin(async move {
            let (key, range_end) = key_range(prefix);
            let count_only = true;
            let request = RangeRequest { key, range_end, count_only, ..RangeRequest::default() };
            Ok(u64::try_from(self.read(request).await?.count).unwrap_or(0))
        })
    }

    fn create<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        Box::pin(async move {
            self.put(key, value, 0, ttl).await?.map_err(|current| match current {
                Some(entry) => Error::Exists(Box::new(entry)),
                None => Error::Unavailable("etcd refused a write for no reason".into()),
            })
        })
    }

    fn update<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        Box::pin(
            async move { self.put(key, value, signed(expected), ttl).await?.map_err(conflict) },
        )
    }

    fn delete<'a>(&'a self, key: &'a [u8], expected: Revision) -> Pending<'a, Result<Revision>> {
        Box::pin(async move {
            let delete =
                Request::DeleteRange(DeleteRangeRequest { key: key.into(), range_end: Vec::new() });
            self.write_if(key, signed(expected), delete).await?.map_err(conflict)
        })
    }

    fn watch<'a>(&'a self, prefix: &'a [u8], after: Revision) -> Pending<'a, Result<Watch>> {
        Box::pin(async move {
            self.require_whole().await?;
            let (key, range_end) = key_range(prefix);
            let start = |task| detached(&self.tasks, task);
            let watch = EtcdWatch::start(self.client.clone(), key, range_end, after, start);
            Ok(Watch::new(watch))
        })
    }

    fn current_revision(&self) -> Pending<'_, Result<Revision>> {
        Box::pin(async {
            self.require_whole().await?;
            // Any key will do: every linearizable read returns the revision.
            let request = RangeRequest { key: self.health_key(), ..RangeRequest::default() };
            let response: proto::RangeResponse =
                self.client.call(RANGE, request, Retry::Always).await.map_err(store_error)?;
            match header_revision(response.header) {
                Revision(0) => Err(Error::Unavailable("etcd: an answer without a revision".into())),
                revision => Ok(revision),
            }
        })
    }

    fn reports_progress(&self) -> bool {
        self.client.reports_progress()
    }

    fn compacted_revision(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    fn compact(&self, revision: Revision) -> Pending<'_, Result<()>> {
        Box::pin(async move {
            let request = CompactionRequest { revision: signed(revision) };
            let outcome: Result<CompactionResponse, Status> =
                self.client.call(COMPACT, request, Retry::Unsent).await;
            match outcome {
                Ok(_) => {
                    compact::note(&self.compacted, revision);
                    Ok(())
                }
                Err(status) => Err(self.revision_error(status, revision).await),
            }
        })
    }

    fn health(&self) -> Pending<'_, Result<()>> {
        Box::pin(async {
            self.deaths.report()?;
            self.current_revision().await.map(|_| ())
        })
    }

    fn close(&self) -> Pending<'_, ()> {
        self.abort_tasks();
        Box::pin(async {})
    }
}

impl Etcd {
    /// Bytes of the database file that a member has allocated.
    pub async fn db_size(&self) -> Result<i64> {
        self.client.db_size().await.map_err(store_error)
    }

    fn health_key(&self) -> Vec<u8> {
        (keys::root(&self.options.prefix) + "health").into()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.abort_tasks();
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("endpoints", &self.options.endpoints).finish_non_exhaustive()
    }
}

fn spawn(tasks: &Mutex<Option<JoinSet<()>>>, task: Pending<'static, ()>) -> Result<AbortHandle> {
    let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
    let tasks = tasks.as_mut().ok_or_else(Error::closed)?;
    // Finished tasks are kept until the next one starts.
    while tasks.try_join_next().is_some() {}
    Ok(tasks.spawn(Metered::task(task, "etcd")))
}

/// Starts a task, or drops it when the store is closed, which closes its channels.
fn detached(tasks: &Mutex<Option<JoinSet<()>>>, task: Pending<'static, ()>) -> AbortHandle {
    spawn(tasks, task).unwrap_or_else(|_| tokio::spawn(async {}).abort_handle())
}

fn conflict(current: Option<Entry>) -> Error {
    current.map_or(Error::NotFound, |entry| Error::Conflict(Box::new(entry)))
}

/// First key of a prefix and end of its range, in etcd's notation: a zero byte stands for the beginning or the end of
/// all keys.
fn key_range(prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let key = if prefix.is_empty() { vec![0] } else { prefix.to_vec() };
    (key, prefix_end(prefix).unwrap_or_else(|| vec![0]))
}

fn entry(kv: KeyValue) -> Entry {
    Entry {
        key: kv.key.into(),
        value: kv.value.into(),
        create_revision: revision(kv.create_revision),
        mod_revision: revision(kv.mod_revision),
    }
}

fn header_revision(header: Option<proto::ResponseHeader>) -> Revision {
    header.map_or_else(Revision::default, |header| revision(header.revision))
}

fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or(0))
}

fn signed(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}
