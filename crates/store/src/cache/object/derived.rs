//! Facts derived from an object at their first use, and kept beside it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Span, labels_in};

/// Derived facts of one object. Most objects are never asked for any and have no `Derived`.
#[derive(Default)]
pub(super) struct Derived {
    /// Index of the labels, if they are many.
    labels: OnceLock<LabelIndex>,
    /// Decoded forms, one for each reader's type. Few resources have any such reader, none more than a few.
    decoded: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
}

impl fmt::Debug for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Derived")
    }
}

impl Derived {
    pub fn labels<'t>(&self, text: impl FnOnce() -> &'t str) -> &LabelIndex {
        kevel_compute::filled(&self.labels, || LabelIndex::new(text()))
    }

    /// Decodes without the lock: decoding is charged, and a charge may wait for a permit. Of concurrent readers each
    /// decodes, and the first result is kept if the object is still current then.
    pub fn decoded<T: Send + Sync + 'static, E>(
        &self,
        decode: impl FnOnce() -> Result<T, E>,
        is_current: impl FnOnce() -> bool,
    ) -> Result<Arc<T>, E> {
        let lock = || self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |all: &[Arc<dyn Any + Send + Sync>]| {
            all.iter().find_map(|one| one.clone().downcast::<T>().ok())
        };
        if let Some(known) = find(&lock()) {
            return Ok(known);
        }
        let decoded = Arc::new(decode()?);
        let mut all = lock();
        if let Some(first) = find(&all) {
            return Ok(first);
        }
        // Under the lock: a form that is pushed before the object is superseded is dropped with the others.
        if is_current() {
            all.push(decoded.clone());
        }
        Ok(decoded)
    }

    pub fn forget_decoded(&self) {
        // Dropped without the lock: the forms may be large.
        drop(std::mem::take(&mut *self.decoded.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}

/// Labels in order of key, as positions in their text. At most twice as large as the text, since a label has at least
/// eight bytes.
#[derive(Debug)]
pub(super) struct LabelIndex(Box<[(Span, Span)]>);

impl LabelIndex {
    fn new(text: &str) -> Self {
        let span = |part: &str| Span {
            // A part's offset is the difference of the addresses.
            start: (part.as_ptr() as usize - text.as_ptr() as usize) as u32,
            len: part.len() as u32,
        };
        let labels = labels_in(text).inspect(|_| kevel_compute::charge(1));
        let mut labels: Vec<_> = labels.map(|(k, v)| (span(k), span(v))).collect();
        let text = text.as_bytes();
        let name = |span: &Span| {
            kevel_compute::charge(1);
            at(*span, text)
        };
        // Encoders write labels sorted.
        if !labels.is_sorted_by_key(|(key, _)| name(key)) {
            labels.sort_by(|(one, _), (other, _)| name(one).cmp(name(other)));
        }
        LabelIndex(labels.into())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get<'t>(&self, text: &'t [u8], key: &str) -> Option<&'t str> {
        let found =
            self.0.binary_search_by(|(name, _)| at(*name, text).cmp(key.as_bytes())).ok()?;
        self.0.get(found).and_then(|(_, value)| std::str::from_utf8(at(*value, text)).ok())
    }
}

fn at(span: Span, text: &[u8]) -> &[u8] {
    text.get(span.start as usize..span.end()).unwrap_or_default()
}
