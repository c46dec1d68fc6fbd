//! Writes another store's keys into an etcd that is empty below its prefix.
//!
//! A marker key outside of the prefix is written first and deleted last: as long as it exists, the import is
//! incomplete, the engine refuses to work ([`require_whole`]), and the next import starts over.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kevel_clock::Stopwatch;
use tokio::task::JoinSet;

use super::{
    COMPACT, Options, RANGE, TXN,
    client::{Client, Retry, store_error},
    header_revision, key_range,
    proto::{
        CompactionRequest, CompactionResponse, Compare, DeleteRangeRequest, LeaseGrantRequest,
        LeaseGrantResponse, PutRequest, RangeRequest, RangeResponse, Request, TxnRequest,
        TxnResponse,
    },
    signed,
};
use crate::{
    Error, Result, Revision, keys,
    migrate::Item,
    progress::{MaintenanceProgress, REPORT_EVERY, Report},
};

/// Marker of an import that is running or was interrupted.
const IMPORTING: &str = "kevel-store/importing";
/// Key that is written repeatedly to raise etcd's revision.
const REVISION: &str = "kevel-store/revision";
/// Concurrent requests: etcd syncs once for many.
const IN_FLIGHT: usize = 256;
/// Number of revision-raising writes after which they are compacted, so that etcd's file does not grow by them.
const COMPACT_EVERY: u64 = 200_000;
/// Maximum number of revision-raising writes, which take an hour or two. A store that was restored from a backup is
/// further ahead.
const MOST_REVISIONS: u64 = 20_000_000;
/// Steps of expiry, in seconds of remaining time to live: keys that expire within the same step share a lease, since
/// leases are expensive in etcd, and live up to a step longer. A shorter remaining time has a finer step.
const LEASE_STEPS: [(u64, u64); 3] = [(1200, 60), (200, 10), (0, 1)];

/// A running import.
#[derive(Debug)]
pub(crate) struct Import {
    client: Arc<Client>,
    /// Revision of the marker key; a concurrent import would have written it again.
    began: Revision,
    /// Leases by expiry, in seconds since the start of the import.
    leases: HashMap<u64, i64>,
    running: Stopwatch,
}

impl Import {
    /// Checks that the target is empty, or clears an interrupted import, and raises its revision to at least `after`.
    pub(crate) async fn begin(
        options: &Options,
        after: Revision,
        report: Report<'_>,
    ) -> Result<Import> {
        let client = Arc::new(Client::new(options)?);
        let (key, range_end) = key_range(keys::root(&options.prefix).as_bytes());
        let found = read(&client, IMPORTING).await?;
        let interrupted = found.kvs.first().map_or(0, |kv| kv.mod_revision);
        if interrupted == 0 {
            let (key, range_end) = (key.clone(), range_end.clone());
            let all = RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
            let answer: RangeResponse =
                client.call(RANGE, all, Retry::Always).await.map_err(store_error)?;
            if answer.count != 0 {
                return Err(Error::Invalid(format!(
                    "etcd is not empty: it has {} keys that begin with {}",
                    answer.count,
                    keys::root(&options.prefix)
                )));
            }
        }
        check_distance(header_revision(found.header), after)?;
        let mark = put(IMPORTING);
        let began = write_if(&client, IMPORTING, interrupted, mark).await?;
        let began = began.ok_or_else(other_writer)?;
        if interrupted != 0 {
            let what = "clearing what an import that was interrupted has left";
            report(MaintenanceProgress::Note(what.to_owned()));
            let clear = Request::DeleteRange(DeleteRangeRequest { key, range_end });
            write(&client, clear).await?;
        }
        let (leases, running) = (HashMap::new(), Stopwatch::start());
        let import = Import { client, began, leases, running };
        import.move_on(began, after, report).await?;
        Ok(import)
    }

    /// Writes until the revision is `to`: each write adds one, and etcd has no other way.
    async fn move_on(&self, from: Revision, to: Revision, report: Report<'_>) -> Result<()> {
        if from >= to {
            return Ok(());
        }
        report(MaintenanceProgress::Note(format!("raising etcd's revision from {from} to {to}")));
        let mut running = JoinSet::new();
        let mut reached = from;
        for number in from.0..to.0 {
            if running.len() >= IN_FLIGHT {
                reached = reached.max(joined(&mut running).await?.unwrap_or_default());
            }
            let client = self.client.clone();
            running.spawn(async move { write(&client, put(REVISION)).await });
            if (number - from.0) % COMPACT_EVERY == COMPACT_EVERY - 1 {
                self.compact(reached).await?;
            }
            let (done, total) = (number - from.0, to.0 - from.0);
            if done.is_multiple_of(REPORT_EVERY) {
                let (verb, units) = ("written", "revisions");
                report(MaintenanceProgress::Counted { verb, units, done, total });
            }
        }
        while joined(&mut running).await?.is_some() {}
        Ok(())
    }

    /// Writes keys.
    pub(crate) async fn put(&mut self, items: Vec<Item>) -> Result<()> {
        let mut running = JoinSet::new();
        for item in items {
            let lease = match item.ttl {
                None => 0,
                Some(ttl) => self.lease(ttl).await?,
            };
            if running.len() >= IN_FLIGHT {
                joined(&mut running).await?;
            }
            running.spawn(create(self.client.clone(), item, lease));
        }
        while joined(&mut running).await?.is_some() {}
        Ok(())
    }

    /// Compacts all revisions before the last, and deletes the marker key.
    pub(crate) async fn finish(self) -> Result<Revision> {
        let revision = write(&self.client, delete(REVISION)).await?;
        self.compact(revision).await?;
        let whole =
            write_if(&self.client, IMPORTING, signed(self.began), delete(IMPORTING)).await?;
        whole.ok_or_else(other_writer)
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        let request = CompactionRequest { revision: signed(revision) };
        let done: Result<CompactionResponse, _> =
            self.client.call(COMPACT, request, Retry::Unsent).await;
        done.map(|_| ()).map_err(store_error)
    }

    async fn lease(&mut self, ttl: Duration) -> Result<i64> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let step = LEASE_STEPS.iter().find(|(least, _)| seconds >= *least).map_or(1, |step| step.1);
        let now = self.running.elapsed().as_secs();
        let end = (now + seconds.max(1)).next_multiple_of(step);
        if let Some(lease) = self.leases.get(&end) {
            return Ok(*lease);
        }
        let request = LeaseGrantRequest { ttl: i64::try_from(end - now).unwrap_or(i64::MAX) };
        let path = "/etcdserverpb.Lease/LeaseGrant";
        let granted: LeaseGrantResponse =
            self.client.call(path, request, Retry::Always).await.map_err(store_error)?;
        if !granted.error.is_empty() {
            return Err(Error::Unavailable(format!("etcd: {}", granted.error)));
        }
        self.leases.insert(end, granted.id);
        Ok(granted.id)
    }
}

/// Whether an etcd can be raised to a revision by writing.
fn check_distance(from: Revision, to: Revision) -> Result<()> {
    match to.0.saturating_sub(from.0) {
        ..=MOST_REVISIONS => Ok(()),
        distance => Err(Error::Invalid(format!(
            "the store is at revision {to} and etcd at {from}, which moves on by one with each write: {distance} would \
             take too long. Begin with an etcd that is at {to} or later: `etcdutl snapshot restore --bump-revision \
             {distance} --mark-compacted` of a snapshot of this one"
        ))),
    }
}

/// Fails if an import into this etcd is incomplete; the error says what to do.
pub(super) async fn require_whole(client: &Client) -> Result<()> {
    match read(client, IMPORTING).await?.kvs.is_empty() {
        true => Ok(()),
        false => Err(Error::Unavailable(format!(
            "an import into this etcd goes on or was interrupted: run `kube-apiserver store export` again. Its key is {IMPORTING}"
        ))),
    }
}

/// Revision of the next finished write; `None` if none is running.
async fn joined(running: &mut JoinSet<Result<Revision>>) -> Result<Option<Revision>> {
    match running.join_next().await {
        None => Ok(None),
        Some(Ok(done)) => done.map(Some),
        Some(Err(error)) => {
            Err(Error::Unavailable(format!("a write was not carried out: {error}")))
        }
    }
}

async fn create(client: Arc<Client>, item: Item, lease: i64) -> Result<Revision> {
    let name = String::from_utf8_lossy(&item.key).into_owned();
    let key = item.key.to_vec();
    let put = PutRequest { key: key.clone(), value: item.value.into(), lease };
    match write_if_key(&client, key, 0, Request::Put(put)).await {
        Ok(Some(revision)) => Ok(revision),
        Ok(None) => Err(Error::Invalid(format!("another writer has changed {name} meanwhile"))),
        Err(Error::TooLarge(_)) => Err(Error::Invalid(format!(
            "{name} is too large for etcd: start it with a higher --max-request-bytes"
        ))),
        Err(error) => Err(error),
    }
}

async fn read(client: &Client, key: &str) -> Result<RangeResponse> {
    let request = RangeRequest { key: key.into(), ..RangeRequest::default() };
    client.call(RANGE, request, Retry::Always).await.map_err(store_error)
}

fn put(key: &str) -> Request {
    Request::Put(PutRequest { key: key.into(), value: Vec::new(), lease: 0 })
}

fn delete(key: &str) -> Request {
    Request::DeleteRange(DeleteRangeRequest { key: key.into(), range_end: Vec::new() })
}

fn other_writer() -> Error {
    Error::Invalid("another import into this etcd goes on".into())
}

async fn write(client: &Client, write: Request) -> Result<Revision> {
    let transaction = TxnRequest { success: vec![write.into()], ..TxnRequest::default() };
    let answer: TxnResponse =
        client.call(TXN, transaction, Retry::Unsent).await.map_err(store_error)?;
    Ok(header_revision(answer.header))
}

async fn write_if(
    client: &Client,
    key: &str,
    expected: i64,
    write: Request,
) -> Result<Option<Revision>> {
    write_if_key(client, key.into(), expected, write).await
}

/// Writes if a key was last written at `expected` (0: does not exist); `None` if not.
async fn write_if_key(
    client: &Client,
    key: Vec<u8>,
    expected: i64,
    write: Request,
) -> Result<Option<Revision>> {
    let compare = vec![Compare::mod_revision(&key, expected)];
    let transaction = TxnRequest { compare, success: vec![write.into()], failure: Vec::new() };
    let answer: TxnResponse =
        client.call(TXN, transaction, Retry::Unsent).await.map_err(store_error)?;
    Ok(answer.succeeded.then(|| header_revision(answer.header)))
}
