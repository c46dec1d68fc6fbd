//! Periodic compaction of etcd, by one of several API servers at a time (upstream: the etcd3 compactor).
//!
//! All servers watch `compact_rev_key`. Its value is the compacted revision, its version a logical clock: the server
//! whose transaction increments the version compacts to the revision that was current at its last attempt; the others
//! learn the new version and try again one interval later. This is the reference's protocol, so servers of both kinds
//! can share a cluster.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

use super::{
    client::{Client, Retry, store_error},
    proto::{
        CompactionRequest, CompactionResponse, Compare, KeyValue, PutRequest, RangeRequest,
        RangeResponse, Request, Response, TxnRequest, TxnResponse,
    },
    revision,
};
use crate::{Error, Result, Revision, WatchSource};

const COMPACT_REV_KEY: &[u8] = b"compact_rev_key";
/// Pause before a broken watch on the key is opened again.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

/// One server's state in the protocol.
#[derive(Debug)]
pub(super) struct Compactor {
    client: Arc<Client>,
    compacted: Arc<AtomicU64>,
    /// The key's version, as last seen by this server.
    time: i64,
    /// The store's revision when the key was last seen.
    revision: i64,
}

impl Compactor {
    pub(super) fn new(client: Arc<Client>, compacted: Arc<AtomicU64>) -> Compactor {
        Compactor { client, compacted, time: 0, revision: 0 }
    }

    /// Tries to compact once every `interval`; never returns.
    pub(super) async fn run(mut self, interval: Duration) {
        loop {
            sleep(interval).await;
            // A failed attempt is repeated in the next interval.
            let _ = self.take_part().await;
        }
    }

    async fn take_part(&mut self) -> Result<()> {
        let put = PutRequest {
            key: COMPACT_REV_KEY.into(),
            value: self.revision.to_string().into(),
            lease: 0,
        };
        let transaction = TxnRequest {
            compare: vec![Compare::version(COMPACT_REV_KEY, self.time)],
            success: vec![Request::Put(put).into()],
            failure: vec![Request::Range(read_key()).into()],
        };
        let answer: TxnResponse = self
            .client
            .call("/etcdserverpb.KV/Txn", transaction, Retry::Unsent)
            .await
            .map_err(store_error)?;
        let before = self.revision;
        self.revision = answer.header.map_or(before, |header| header.revision);
        if !answer.succeeded {
            let kv = answer.responses.into_iter().find_map(|op| match op.response {
                Some(Response::Range(range)) => range.kvs.into_iter().next(),
                None => None,
            });
            let kv = kv.ok_or_else(|| Error::Unavailable("etcd: no compaction key".into()))?;
            self.time = kv.version;
            note(&self.compacted, compacted_of(&kv));
            return Ok(());
        }
        self.time += 1;
        if before == 0 {
            // The first increment has no earlier revision to compact to.
            return Ok(());
        }
        let request = CompactionRequest { revision: before };
        let _: CompactionResponse = self
            .client
            .call("/etcdserverpb.KV/Compact", request, Retry::Unsent)
            .await
            .map_err(store_error)?;
        note(&self.compacted, revision(before));
        Ok(())
    }
}

/// Watches the compacted revision that all servers share; never returns. `watch` watches a key range from a revision.
pub(super) async fn follow<W: WatchSource>(
    client: Arc<Client>,
    compacted: Arc<AtomicU64>,
    watch: impl Fn(Vec<u8>, Vec<u8>, Revision) -> W,
) {
    loop {
        let found: Result<RangeResponse, _> =
            client.call("/etcdserverpb.KV/Range", read_key(), Retry::Always).await;
        if let Ok(RangeResponse { header: Some(header), kvs, .. }) = found {
            for kv in &kvs {
                note(&compacted, compacted_of(kv));
            }
            let end = [COMPACT_REV_KEY, &[0]].concat();
            let mut watch = watch(COMPACT_REV_KEY.into(), end, revision(header.revision));
            while let Ok(response) = watch.next().await {
                for entry in response.events.iter().filter_map(|event| event.current.as_ref()) {
                    note(&compacted, parse(&entry.value));
                }
            }
        }
        sleep(FOLLOW_PAUSE).await;
    }
}

/// Records the newest compaction.
pub(super) fn note(compacted: &AtomicU64, revision: Revision) {
    compacted.fetch_max(revision.0, Ordering::AcqRel);
}

fn read_key() -> RangeRequest {
    RangeRequest { key: COMPACT_REV_KEY.into(), ..RangeRequest::default() }
}

fn compacted_of(kv: &KeyValue) -> Revision {
    parse(&kv.value)
}

fn parse(value: &[u8]) -> Revision {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    Revision(number.unwrap_or(0))
}
