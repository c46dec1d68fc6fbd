//! Reads all keys below a prefix at one revision, page by page, for a migration.

use std::{collections::HashMap, time::Duration};

use kevel_clock::timer_now;
use tokio::time::Instant;

use super::{
    Options, RANGE,
    client::{Client, Retry, store_error},
    header_revision, key_range,
    proto::{
        KeyValue, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, RangeRequest, RangeResponse,
    },
    signed,
};
use crate::{
    Result, Revision, keys,
    migrate::{Item, PAGE_BYTES, PAGE_KEYS},
};

/// Keys of the first page: the size of values is known only afterwards.
const FIRST_PAGE_KEYS: usize = 16;

/// Keys that an etcd holds below a prefix, at the revision of `open`.
#[derive(Debug)]
pub(crate) struct Contents {
    client: Client,
    next_key: Vec<u8>,
    first_key: Vec<u8>,
    range_end: Vec<u8>,
    revision: Revision,
    /// Number of keys at that revision.
    count: u64,
    /// Number of keys to request, estimated to fill a page.
    limit: usize,
    /// Expiry of each lease seen so far.
    leases: HashMap<i64, Instant>,
}

impl Contents {
    /// Opens the contents at the current revision.
    pub(crate) async fn open(options: &Options) -> Result<Contents> {
        let client = Client::new(options)?;
        let (first_key, range_end) = key_range(keys::root(&options.prefix).as_bytes());
        let request = RangeRequest {
            key: first_key.clone(),
            range_end: range_end.clone(),
            count_only: true,
            ..RangeRequest::default()
        };
        let answer: RangeResponse =
            client.call(RANGE, request, Retry::Always).await.map_err(store_error)?;
        let (next_key, revision) = (first_key.clone(), header_revision(answer.header));
        let (limit, leases) = (FIRST_PAGE_KEYS, HashMap::new());
        let count = u64::try_from(answer.count).unwrap_or(0);
        Ok(Contents { client, next_key, first_key, range_end, revision, count, limit, leases })
    }

    /// The revision that is read.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Number of keys at that revision.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The next keys; `None` at the end.
    pub(crate) async fn page(&mut self) -> Result<Option<Vec<Item>>> {
        let request = RangeRequest {
            key: self.next_key.clone(),
            range_end: self.range_end.clone(),
            limit: i64::try_from(self.limit).unwrap_or(i64::MAX),
            revision: signed(self.revision),
            ..RangeRequest::default()
        };
        let answer: RangeResponse =
            self.client.call(RANGE, request, Retry::Always).await.map_err(store_error)?;
        let Some(last) = answer.kvs.last() else { return Ok(None) };
        self.next_key = [&last.key[..], &[0]].concat();
        let bytes: usize = answer.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
        self.limit = (answer.kvs.len() * PAGE_BYTES / bytes.max(1)).clamp(1, PAGE_KEYS);
        let mut items = Vec::with_capacity(answer.kvs.len());
        for KeyValue { key, value, lease, .. } in answer.kvs {
            let ttl = match lease {
                0 => None,
                lease => Some(self.time_left(lease).await?),
            };
            items.push(Item { key: key.into(), value: value.into(), ttl });
        }
        Ok(Some(items))
    }

    /// Whether anything was written below the prefix since the revision that is read. Expired keys do not count: etcd
    /// deletes them without any server.
    pub(crate) async fn is_written_to(&self) -> Result<bool> {
        let request = RangeRequest {
            key: self.first_key.clone(),
            range_end: self.range_end.clone(),
            limit: 1,
            min_mod_revision: signed(self.revision.next()),
            ..RangeRequest::default()
        };
        let answer: RangeResponse =
            self.client.call(RANGE, request, Retry::Always).await.map_err(store_error)?;
        Ok(!answer.kvs.is_empty())
    }

    /// Remaining time of a lease; zero if it has expired.
    async fn time_left(&mut self, lease: i64) -> Result<Duration> {
        let now = timer_now();
        let end = match self.leases.get(&lease) {
            Some(end) => *end,
            None => {
                let request = LeaseTimeToLiveRequest { id: lease };
                let path = "/etcdserverpb.Lease/LeaseTimeToLive";
                let answer: LeaseTimeToLiveResponse =
                    self.client.call(path, request, Retry::Always).await.map_err(store_error)?;
                let end = now + Duration::from_secs(u64::try_from(answer.ttl).unwrap_or(0));
                self.leases.insert(lease, end);
                end
            }
        };
        Ok(end.saturating_duration_since(now))
    }
}
