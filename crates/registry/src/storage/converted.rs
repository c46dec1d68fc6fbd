//! Custom resource objects converted by a webhook.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use kevel_api::gvk::GroupVersion;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_store::Revision;
use kevel_store::cache::{Object, Wire};

use super::{Storage, is_foreign};
use crate::metadata;

/// Bytes of objects in one call of a conversion webhook; a larger object goes alone. A response to so many, even if
/// several times as long, is well below the limit, and a list of any length is converted by calls of bounded size.
const BATCH: usize = 1 << 20;

/// Limit on the bytes of cached converted objects, of all kinds together: enough for the lists that controllers of a
/// usual cluster repeat. (The reference keeps all objects in all versions, without a limit.)
const MAX_KEPT: usize = 128 << 20;

/// Overhead of an entry in bytes.
const ENTRY: usize = 128;

/// Cache of objects converted by webhooks, of all custom resources. An entry is served as long as neither the object
/// nor its definition changes, whether or not the webhook is available (upstream: the watch cache of each version).
#[derive(Debug, Default)]
pub struct ConvertedObjects {
    generations: Mutex<Generations>,
    configurations: AtomicU64,
    /// Two hashers, since 64 bits are too few to identify objects.
    hashers: [RandomState; 2],
}

/// Entries in two generations: when the young ones reach half of the limit, the old ones are dropped. A used entry
/// becomes young.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<u128, Wire>,
    old: HashMap<u128, Wire>,
    young_bytes: usize,
}

impl Generations {
    fn insert(&mut self, digest: u128, wire: Wire) {
        let size = wire.bytes.len() + ENTRY;
        if size > MAX_KEPT / 2 {
            return;
        }
        if self.young_bytes + size > MAX_KEPT / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if self.young.insert(digest, wire).is_none() {
            self.young_bytes += size;
        }
    }

    fn get(&mut self, digest: u128) -> Option<Wire> {
        if let Some(found) = self.young.get(&digest) {
            return Some(found.clone());
        }
        let found = self.old.remove(&digest)?;
        self.insert(digest, found.clone());
        Some(found)
    }
}

/// Converted objects of one conversion configuration; a changed definition gets a new view.
#[derive(Debug)]
pub struct ConvertedView {
    shared: Arc<ConvertedObjects>,
    configuration: u64,
}

impl ConvertedView {
    /// A view that shares no entries with others.
    pub fn new(shared: Arc<ConvertedObjects>) -> Self {
        let configuration = shared.configurations.fetch_add(1, Ordering::Relaxed);
        ConvertedView { shared, configuration }
    }

    /// Cache key of an object in a version. The wire bytes contain the uid and the resourceVersion.
    fn digest(&self, wire: &Bytes, to: &str) -> u128 {
        let half = |hasher: &RandomState| hasher.hash_one((self.configuration, to, &wire[..]));
        let [high, low] = self.shared.hashers.each_ref().map(half);
        (u128::from(high) << 64) | u128::from(low)
    }

    fn get(&self, digest: u128) -> Option<Wire> {
        self.generations().get(digest)
    }

    fn insert(&self, digest: u128, wire: Wire) {
        self.generations().insert(digest, wire);
    }

    fn generations(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.shared.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage {
    /// Converts stored objects to a version. The wire bytes name the version, unless it is the storage version.
    pub async fn converted(
        &self,
        objects: Vec<Arc<Object>>,
        to: &GroupVersion,
    ) -> Result<Vec<Arc<Object>>, StatusError> {
        let wires = objects.iter().map(|object| object.wire().cloned());
        let wires = wires.collect::<Result<Vec<Bytes>, &str>>().map_err(StatusError::internal)?;
        let converted = self.converted_wires(&wires, to).await?.into_iter();
        let in_version = |(object, wire): (Arc<Object>, Option<Wire>)| match wire {
            Some(wire) => Arc::new(object.in_version(wire)),
            None => object,
        };
        Ok(objects.into_iter().zip(converted).map(in_version).collect())
    }

    /// Decodes a stored object's wire bytes and converts it to a version of its group.
    pub async fn read_in(&self, wire: &Bytes, to: &GroupVersion) -> Result<Value, StatusError> {
        if !self.converts_remotely() {
            let value = self.read(wire).map_err(StatusError::internal)?;
            return self.convert(value, &self.kind, to).await;
        }
        let converted = self.converted_wires(std::slice::from_ref(wire), to).await?;
        let converted = converted.into_iter().flatten().next();
        let wire = converted.as_ref().map_or(wire, |converted| &converted.bytes);
        self.read(wire).map_err(StatusError::internal)
    }

    /// Wire bytes of objects in another version; `None` for objects that are in it already. Objects not in the cache
    /// are converted in batches.
    async fn converted_wires(
        &self,
        wires: &[Bytes],
        to: &GroupVersion,
    ) -> Result<Vec<Option<Wire>>, StatusError> {
        let version = to.to_string();
        let mut converted: Vec<Option<Wire>> = vec![None; wires.len()];
        let mut batch = Batch::default();
        for (index, wire) in wires.iter().enumerate() {
            if self.is_in(wire, to, &version) {
                continue;
            }
            let digest = self.kept().map(|kept| kept.digest(wire, &version));
            if let Some(kept) = self.kept().and_then(|kept| kept.get(digest?)) {
                converted[index] = Some(kept);
                continue;
            }
            if batch.bytes + wire.len() > BATCH {
                self.convert_batch(std::mem::take(&mut batch), wires, to, &mut converted).await?;
            }
            batch.bytes += wire.len();
            batch.objects.push((index, digest));
        }
        self.convert_batch(batch, wires, to, &mut converted).await?;
        Ok(converted)
    }

    async fn convert_batch(
        &self,
        batch: Batch,
        wires: &[Bytes],
        to: &GroupVersion,
        converted: &mut [Option<Wire>],
    ) -> Result<(), StatusError> {
        let (Some(conversion), false) = (&self.conversion, batch.objects.is_empty()) else {
            return Ok(());
        };
        let read = |(index, _): &(usize, _)| self.read(&wires[*index]);
        let values = batch.objects.iter().map(read).collect::<Result<Vec<_>, String>>();
        let values = conversion.convert(values.map_err(StatusError::internal)?, to).await?;
        if values.len() != batch.objects.len() {
            return Err(StatusError::internal("an object was lost in its conversion"));
        }
        for ((index, digest), value) in batch.objects.into_iter().zip(values) {
            let wire = self.wire_in(&value, to).map_err(StatusError::internal)?;
            if let (Some(kept), Some(digest)) = (self.kept(), digest) {
                kept.insert(digest, wire.clone());
            }
            converted[index] = Some(wire);
        }
        Ok(())
    }

    /// Wire bytes of an object in another version than the storage version, which they name.
    fn wire_in(&self, value: &Value, to: &GroupVersion) -> Result<Wire, String> {
        let schema = self.schema_in(to).ok_or("the object has no such version")?;
        let revision = metadata::text(value, "resourceVersion").parse().map(Revision);
        let revision = revision.map_err(|_| "a stored object has no resourceVersion")?;
        let mut text = Vec::with_capacity(2048);
        json::encode(value, schema, &mut text);
        self.decode.json.decode_with_version(&text, revision)
    }

    /// Whether wire bytes are in a version.
    fn is_in(&self, wire: &[u8], to: &GroupVersion, version: &str) -> bool {
        match is_foreign(wire) {
            true => json::type_meta(wire).is_ok_and(|said| said.api_version == version),
            false => self.kind.version == to.version && self.kind.group == to.group,
        }
    }

    fn kept(&self) -> Option<&ConvertedView> {
        self.conversion.as_ref()?.converted()
    }
}

/// Objects of one webhook call: their positions and cache keys.
#[derive(Default)]
struct Batch {
    objects: Vec<(usize, Option<u128>)>,
    bytes: usize,
}

#[cfg(test)]
mod tests {
    use kevel_store::cache::{Decode as _, JsonDecode, KeyOrder};

    use super::*;

    fn wire(name: &str, len: usize) -> Wire {
        let text = format!(r#"{{"metadata":{{"name":"{name}"}},"x":"{}"}}"#, "x".repeat(len));
        JsonDecode { order: KeyOrder::Sorted }.decode(&text.into(), Revision(1)).unwrap()
    }

    #[test]
    fn converted_objects_are_told_apart_by_version_and_configuration() {
        let shared = Arc::new(ConvertedObjects::default());
        let (one, other) = (ConvertedView::new(shared.clone()), ConvertedView::new(shared));
        let object = wire("a", 1);
        one.insert(one.digest(&object.bytes, "g/v1"), object.clone());
        let found = |view: &ConvertedView, wire: &Wire, to: &str| {
            view.get(view.digest(&wire.bytes, to)).is_some()
        };
        assert!(found(&one, &object, "g/v1"));
        assert!(!found(&one, &object, "g/v2"));
        assert!(!found(&other, &object, "g/v1"));
        assert!(!found(&one, &wire("b", 1), "g/v1"));
        assert!(!found(&one, &object.restamped(Revision(2)), "g/v1"));
    }

    #[test]
    fn converted_objects_are_bounded_and_used_ones_stay() {
        let mut generations = Generations::default();
        let large = wire("large", 1 << 20);
        generations.insert(0, large.clone());
        for digest in 1..1000 {
            generations.insert(digest, large.clone());
            assert!(generations.get(0).is_some(), "{digest}");
            let kept = generations.young.len() + generations.old.len();
            assert!(kept << 20 <= MAX_KEPT, "{kept} MiB");
        }
        generations.insert(1000, wire("huge", MAX_KEPT));
        assert!(generations.get(1000).is_none());
    }
}
