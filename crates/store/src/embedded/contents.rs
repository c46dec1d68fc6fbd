//! Reads all keys of a store, page by page, for a migration.

use std::{ops::ControlFlow, time::Duration};

use bytes::Bytes;

use super::{
    Embedded, Shared,
    index::{self, KeyRange},
    read::require_kept,
};
use crate::{
    Result, Revision,
    migrate::{Item, PAGE_BYTES, PAGE_KEYS},
};

impl Embedded {
    /// The keys behind `after` at a revision; none at the end. Fails at the first key that cannot be read.
    pub(crate) async fn page(&self, at: Revision, after: Option<Bytes>) -> Result<Vec<Item>> {
        let read = move |shared: &Shared| read_page(shared, at, after.as_deref());
        self.shared.clone().blocking(read).await
    }
}

fn read_page(shared: &Shared, at: Revision, after: Option<&[u8]>) -> Result<Vec<Item>> {
    let range = KeyRange::new(b"", after);
    let (revision, recent) = shared.reader().recent_within(&range, Some(at))?;
    shared.database.read(|connection| {
        require_kept(connection, revision)?;
        let (mut items, mut bytes, mut failed) = (Vec::new(), 0, None);
        let now = shared.clock.now();
        index::scan(connection, recent, &range, revision, |key, version| {
            let key = Bytes::copy_from_slice(key);
            let record = match version.record(connection, &key) {
                Ok(record) => record,
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            };
            let left = Duration::from_millis(record.expires.saturating_sub(now));
            let ttl = (record.expires != 0).then_some(left);
            let value = record.value.unwrap_or_default();
            bytes += key.len() + value.len();
            items.push(Item { key, value, ttl });
            match bytes < PAGE_BYTES && items.len() < PAGE_KEYS {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        failed.map_or(Ok(items), Err)
    })
}
