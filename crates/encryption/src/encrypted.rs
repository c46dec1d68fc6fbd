//! Storage engine with encrypted values.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use kevel_clock::timer_now;
use kevel_store::{
    Damaged, Engine, Entry, Error, Event, GetResponse, Pending, RangeOptions, RangeResponse,
    Result, Revision, Unreadable, Watch, WatchResponse, WatchSource,
};
use tokio::time::{Instant, timeout_at};

use crate::metrics::EncryptionMetrics;
use crate::resources::Transformers;
use crate::transformer::{Context, TransformError, Transformed, identity};

/// Time that a watch waits for a plug-in. All resources share one watch, so waiting delays all of them; a resource
/// whose values take longer is loaded again, beside the watch.
const WATCH_PATIENCE: Duration = Duration::from_millis(250);
/// Time after an unanswered call during which the watch does not wait for plug-ins at all.
const IMPATIENCE: Duration = Duration::from_secs(10);

/// An engine around another: encrypts values that are written, and decrypts those that are read (upstream:
/// value.Transformer in etcd3's store).
#[derive(Clone)]
pub struct Encrypted {
    engine: Arc<dyn Engine>,
    transformers: Arc<ArcSwap<Transformers>>,
    metrics: Arc<EncryptionMetrics>,
}

impl std::fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encrypted")
    }
}

impl Encrypted {
    /// An engine that uses the present transformers of each moment.
    pub fn new(
        engine: Arc<dyn Engine>,
        transformers: Arc<ArcSwap<Transformers>>,
        metrics: Arc<EncryptionMetrics>,
    ) -> Self {
        Encrypted { engine, transformers, metrics }
    }

    async fn seal(&self, key: &[u8], value: Bytes) -> Result<Bytes> {
        let transformers = self.transformers.load_full();
        let Some((resource, providers)) = transformers.of(key) else { return Ok(value) };
        let context = Context { key, resource: &resource, metrics: &self.metrics };
        kevel_compute::charge_bytes(value.len());
        match providers.to_storage(&value, context).await {
            Ok(sealed) => Ok(sealed.into()),
            Err(error) => {
                tracing::error!(%error, resource = &*resource, "failed to encrypt data");
                Err(Error::Unavailable(error.to_string()))
            }
        }
    }

    async fn open(&self, key: &[u8], stored: &Bytes) -> Result<Transformed, TransformError> {
        // A whole set: a later swap affects later calls only.
        let transformers = self.transformers.load_full();
        let Some((resource, providers)) = transformers.of(key) else {
            identity(stored)?;
            return Ok(Transformed { value: stored.clone(), stale: false });
        };
        let context = Context { key, resource: &resource, metrics: &self.metrics };
        kevel_compute::charge_bytes(stored.len());
        providers.from_storage(stored, context).await
    }

    /// Decrypts an entry; the error says why it cannot be read.
    async fn open_entry(&self, entry: &mut Entry) -> Result<(), Error> {
        let (key, revision) = (&entry.key, entry.mod_revision);
        match self.open(key, &entry.value).await {
            Ok(opened) => entry.value = opened.value,
            Err(TransformError::Damaged(why)) => {
                let key = key.clone();
                return Err(Error::Damaged(Box::new(Damaged { key, revision, why, sealed: true })));
            }
            Err(TransformError::Unavailable { message, .. }) => {
                return Err(Error::Unavailable(message));
            }
        }
        Ok(())
    }

    /// Result of a write, with the entry of a conflict decrypted.
    async fn written(&self, written: Result<Revision>) -> Result<Revision> {
        let error = match written {
            Err(error) => error,
            written => return written,
        };
        Err(match error {
            Error::Exists(mut entry) => {
                self.open_entry(&mut entry).await?;
                Error::Exists(entry)
            }
            Error::Conflict(mut entry) => {
                self.open_entry(&mut entry).await?;
                Error::Conflict(entry)
            }
            error => error,
        })
    }
}

impl Engine for Encrypted {
    fn get<'a>(
        &'a self,
        key: &'a [u8],
        revision: Option<Revision>,
    ) -> Pending<'a, Result<GetResponse>> {
        Box::pin(async move {
            let mut found = self.engine.get(key, revision).await?;
            if let Some(entry) = &mut found.entry {
                self.open_entry(entry).await?;
            }
            Ok(found)
        })
    }

    fn range<'a>(
        &'a self,
        prefix: &'a [u8],
        options: RangeOptions,
    ) -> Pending<'a, Result<RangeResponse>> {
        Box::pin(async move {
            let mut found = self.engine.range(prefix, options).await?;
            let mut entries = Vec::with_capacity(found.entries.len());
            for mut entry in std::mem::take(&mut found.entries) {
                match self.open_entry(&mut entry).await {
                    Ok(()) => entries.push(entry),
                    Err(Error::Damaged(damaged)) => found.damaged.push(*damaged),
                    // A page without a temporarily unreadable value would claim that it does not exist.
                    Err(error) => return Err(error),
                }
            }
            found.damaged.sort_by(|one, other| one.key.cmp(&other.key));
            Ok(RangeResponse { entries, ..found })
        })
    }

    fn count<'a>(&'a self, prefix: &'a [u8]) -> Pending<'a, Result<u64>> {
        self.engine.count(prefix)
    }

    fn create<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        Box::pin(async move {
            let value = self.seal(key, value).await?;
            let written = self.engine.create(key, value, ttl).await;
            self.written(written).await
        })
    }

    fn update<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        Box::pin(async move {
            let value = self.seal(key, value).await?;
            let written = self.engine.update(key, value, expected, ttl).await;
            self.written(written).await
        })
    }

    fn is_stale<'a>(&'a self, key: &'a [u8]) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            if self.transformers.load().of(key).is_none() {
                return Ok(false);
            }
            let found = self.engine.get(key, None).await?;
            let Some(entry) = found.entry else { return Ok(false) };
            // An unreadable value is not compared with a write.
            let opened = self.open(key, &entry.value).await;
            Ok(opened.is_ok_and(|opened| opened.stale))
        })
    }

    fn delete<'a>(&'a self, key: &'a [u8], expected: Revision) -> Pending<'a, Result<Revision>> {
        Box::pin(async move {
            let written = self.engine.delete(key, expected).await;
            self.written(written).await
        })
    }

    fn watch<'a>(&'a self, prefix: &'a [u8], after: Revision) -> Pending<'a, Result<Watch>> {
        Box::pin(async move {
            let watch = self.engine.watch(prefix, after).await?;
            let engine = self.clone();
            Ok(Watch::new(DecryptedWatch {
                engine,
                watch,
                heard: None,
                opened: 0,
                impatient: None,
            }))
        })
    }

    fn current_revision(&self) -> Pending<'_, Result<Revision>> {
        self.engine.current_revision()
    }

    fn reports_progress(&self) -> bool {
        self.engine.reports_progress()
    }

    fn compacted_revision(&self) -> Revision {
        self.engine.compacted_revision()
    }

    fn compact(&self, revision: Revision) -> Pending<'_, Result<()>> {
        self.engine.compact(revision)
    }

    fn health(&self) -> Pending<'_, Result<()>> {
        self.engine.health()
    }

    fn close(&self) -> Pending<'_, ()> {
        self.engine.close()
    }
}

/// A watch with decrypted values.
struct DecryptedWatch {
    engine: Encrypted,
    watch: Watch,
    /// Response that was received and not yet returned: the caller may drop `next` at any moment.
    heard: Option<WatchResponse>,
    /// Number of its events that are decrypted.
    opened: usize,
    /// End of the time in which events are not delayed for a KMS plug-in, after one was too slow.
    impatient: Option<Instant>,
}

impl WatchSource for DecryptedWatch {
    fn next(&mut self) -> Pending<'_, Result<WatchResponse>> {
        Box::pin(async move {
            if self.heard.is_none() {
                self.heard = Some(self.watch.next().await?);
                self.opened = 0;
            }
            let now = timer_now();
            let impatient = self.impatient.is_some_and(|until| until > now);
            let deadline = if impatient { now } else { now + WATCH_PATIENCE };
            let events = self.heard.as_mut().map(|heard| heard.events.as_mut_slice());
            for event in events.unwrap_or_default().iter_mut().skip(self.opened) {
                if !open_event(&self.engine, event, deadline).await {
                    self.impatient = Some(now + IMPATIENCE);
                }
                self.opened += 1;
            }
            // Set above.
            self.heard.take().ok_or_else(|| Error::Unavailable("nothing was heard".to_owned()))
        })
    }

    fn request_progress(&mut self) {
        self.watch.request_progress();
    }
}

/// Decrypts the values of an event. `false`: a plug-in did not answer in time. The previous value stays encrypted if it
/// cannot be decrypted at once: it is not worth waiting for.
async fn open_event(engine: &Encrypted, event: &mut Event, deadline: Instant) -> bool {
    let mut answered = true;
    if let Some(entry) = &mut event.current {
        let opened = timeout_at(deadline, engine.open(&event.key, &entry.value)).await;
        match opened {
            Ok(Ok(opened)) => entry.value = opened.value,
            Ok(Err(TransformError::Damaged(why))) => {
                event.unreadable = Some(Unreadable::Damaged(why));
            }
            Ok(Err(TransformError::Unavailable { message, .. })) => {
                event.unreadable = Some(Unreadable::Unavailable(message));
            }
            Err(_) => {
                let why = "the KMS plugin did not decrypt in time".to_owned();
                event.unreadable = Some(Unreadable::Unavailable(why));
                answered = false;
            }
        }
    }
    if let Some(entry) = &mut event.previous {
        let at_once = timeout_at(deadline.min(timer_now()), engine.open(&event.key, &entry.value));
        if let Ok(Ok(opened)) = at_once.await {
            entry.value = opened.value;
        }
    }
    answered
}
