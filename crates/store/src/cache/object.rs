//! An object in the watch cache: its wire bytes, and the positions of its labels and selectable fields in them.

mod derived;

use bytes::Bytes;
use kevel_api::selector::label::LabelSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use self::derived::{Derived, LabelIndex};
use super::FieldPath;
use super::wire::locate_all;
use crate::{Damaged, Revision};

/// A range of an object's wire bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    pub(super) fn of(self, wire: &[u8]) -> Option<&str> {
        std::str::from_utf8(wire.get(self.start as usize..self.end())?).ok()
    }
}

/// Result of [`super::Decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// JSON with its resourceVersion, without kind and apiVersion.
    pub bytes: Bytes,
    /// The digits of the resourceVersion.
    pub revision: Span,
    /// The JSON of `metadata.labels`, braces included; empty if the object has none.
    pub labels: Span,
}

impl Wire {
    /// Copy of the object with another resourceVersion.
    pub fn restamped(&self, revision: Revision) -> Wire {
        let (start, end) = (self.revision.start as usize, self.revision.end());
        let (Some(before), Some(after)) = (self.bytes.get(..start), self.bytes.get(end..)) else {
            return self.clone();
        };
        let digits = revision.to_string();
        let mut labels = self.labels;
        if labels.start as usize >= end {
            labels.start = labels.start + digits.len() as u32 - self.revision.len;
        }
        Wire {
            bytes: [before, digits.as_bytes(), after].concat().into(),
            revision: Span { len: digits.len() as u32, ..self.revision },
            labels,
        }
    }
}

/// An object in the watch cache.
#[derive(Debug)]
pub struct Object {
    key: Arc<str>,
    revision: Revision,
    wire: Result<Wire, Box<UnreadableValue>>,
    /// Whether a newer state has replaced this one in the cache.
    superseded: AtomicBool,
    /// Positions of the resource's selectable fields; located at the first use of any.
    fields: OnceLock<Box<[Span]>>,
    /// Facts derived from the object on demand; few objects have any.
    derived: OnceLock<Box<Derived>>,
}

/// Reason that a stored value cannot be read.
#[derive(Clone, Debug)]
struct UnreadableValue {
    /// The error as it is shown, with the key.
    shown: Box<str>,
    /// Description of the damage alone.
    why: Box<str>,
    /// Whether no configured encryption key decrypts the value.
    sealed: bool,
}

impl Object {
    fn with(key: &str, revision: Revision, wire: Result<Wire, Box<UnreadableValue>>) -> Self {
        let (superseded, fields, derived) = Default::default();
        Object { key: key.into(), revision, wire, superseded, fields, derived }
    }

    /// An object whose value can be read, or the reason that it cannot.
    #[cfg(test)]
    pub(super) fn new(key: &str, revision: Revision, wire: Result<Wire, String>) -> Self {
        let unread = |why: String| UnreadableValue {
            shown: why.as_str().into(),
            why: why.into(),
            sealed: false,
        };
        Object::with(key, revision, wire.map_err(|why| Box::new(unread(why))))
    }

    /// An object whose value can be read.
    pub(super) fn readable(key: &str, revision: Revision, wire: Wire) -> Self {
        Object::with(key, revision, Ok(wire))
    }

    /// An object whose value cannot be read.
    pub(super) fn damaged(key: &str, damaged: &Damaged) -> Self {
        let (shown, why) = (damaged.to_string().into(), damaged.why.as_str().into());
        let unread = UnreadableValue { shown, why, sealed: damaged.sealed };
        Object::with(key, damaged.revision, Err(Box::new(unread)))
    }

    /// The object's last state with the revision of its deletion, as DELETED events show it.
    pub(super) fn gone(&self, revision: Revision) -> Self {
        let wire = self.wire.as_ref().map(|wire| wire.restamped(revision)).map_err(Clone::clone);
        Object::with(&self.key, revision, wire)
    }

    /// The object in another API version, with that version's wire bytes.
    pub fn in_version(&self, wire: Wire) -> Self {
        Object::with(&self.key, self.revision, Ok(wire))
    }

    /// The key below the resource's prefix: `namespace/name`, or `name`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The key, to be kept without a copy.
    pub(super) fn shared_key(&self) -> &Arc<str> {
        &self.key
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.key.rsplit_once('/').map_or(&self.key, |(_, name)| name)
    }

    /// The object's namespace; empty if it has none.
    pub fn namespace(&self) -> &str {
        self.key.rsplit_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// Revision of the write.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The JSON that is sent to clients; the error says why the stored value cannot be read.
    pub fn wire(&self) -> Result<&Bytes, &str> {
        self.wire.as_ref().map(|wire| &wire.bytes).map_err(|unread| &*unread.shown)
    }

    /// Whether the value cannot be read because no configured encryption key decrypts it.
    pub fn is_sealed(&self) -> bool {
        self.wire.as_ref().is_err_and(|unread| unread.sealed)
    }

    /// Description of the damage, without the key, of a value that cannot be read.
    pub fn damage(&self) -> Option<&str> {
        self.wire.as_ref().err().map(|unread| &*unread.why)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        match self.has_many_labels() {
            false => {
                let mut labels = labels_in(self.labels_text());
                labels.find(|(name, _)| *name == key).map(|(_, value)| value)
            }
            // Long text: not validated as UTF-8 again for each label.
            true => self.label_index().get(self.labels_bytes(), key),
        }
    }

    fn has_many_labels(&self) -> bool {
        self.wire.as_ref().is_ok_and(|wire| wire.labels.len as usize > SCANNED_LABELS)
    }

    fn label_index(&self) -> &LabelIndex {
        self.derived().labels(|| self.labels_text())
    }

    fn labels_bytes(&self) -> &[u8] {
        let wire = self.wire.as_ref().ok();
        let span = |wire: &'_ Wire| wire.labels.start as usize..wire.labels.end();
        wire.and_then(|wire| wire.bytes.get(span(wire))).unwrap_or_default()
    }

    /// The JSON of the labels, braces included.
    fn labels_text(&self) -> &str {
        let wire = self.wire.as_ref().ok();
        wire.and_then(|wire| wire.labels.of(&wire.bytes)).unwrap_or_default()
    }

    fn derived(&self) -> &Derived {
        self.derived.get_or_init(Box::default)
    }

    /// The object decoded to a reader's type, once, and shared by all readers of that type. Kept as long as the object
    /// is the current one of its key.
    pub fn decoded<T, E>(&self, decode: impl FnOnce(&Self) -> Result<T, E>) -> Result<Arc<T>, E>
    where
        T: Send + Sync + 'static,
    {
        let is_current = || !self.superseded.load(Ordering::SeqCst);
        self.derived().decoded(|| decode(self), is_current)
    }

    /// Drops the decoded forms: the object is no longer current. Forms decoded from now on are not kept.
    pub(super) fn supersede(&self) {
        self.superseded.store(true, Ordering::SeqCst);
        if let Some(derived) = self.derived.get() {
            derived.forget_decoded();
        }
    }

    /// Value of the selectable field at a position in the resource's fields; the field's zero value if the object lacks
    /// it.
    pub fn field(&self, paths: &[FieldPath], position: usize) -> &str {
        let Ok(wire) = &self.wire else { return "" };
        let parts = kevel_compute::filled(&self.fields, || locate_all(&wire.bytes, paths));
        let found =
            parts.get(position).and_then(|part| part.of(&wire.bytes)).filter(|v| !v.is_empty());
        found.unwrap_or_else(|| paths.get(position).map_or("", FieldPath::zero))
    }

    /// Texts at several paths that are not among the selectable fields, looked for in one pass each time: strings
    /// without their quotes, other values as they are; empty where the object has none.
    pub fn texts_at(&self, paths: &[FieldPath]) -> Vec<&str> {
        let Ok(wire) = &self.wire else { return vec![""; paths.len()] };
        let spans = locate_all(&wire.bytes, paths);
        spans.iter().map(|span| span.of(&wire.bytes).unwrap_or_default()).collect()
    }

    /// Text at a path that is not among the selectable fields: looked for each time.
    pub(super) fn text_at(&self, path: &FieldPath) -> &str {
        let Ok(wire) = &self.wire else { return "" };
        path.locate(&wire.bytes).of(&wire.bytes).unwrap_or_default()
    }

    pub(super) fn size(&self) -> usize {
        self.wire.as_ref().map_or(0, |wire| wire.bytes.len())
    }
}

/// Length of labels in bytes up to which a lookup scans the text: faster than an index, which larger label sets get.
/// Ordinary objects have less.
const SCANNED_LABELS: usize = 2048;

/// The labels in the text of a JSON object of strings. Neither keys nor values of labels can hold a quote or a
/// backslash, so the text needs no unescaping.
fn labels_in(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut strings = text.split('"').skip(1).step_by(2);
    std::iter::from_fn(move || Some((strings.next()?, strings.next()?)))
}

impl LabelSet for Object {
    fn get(&self, key: &str) -> Option<&str> {
        self.label(key)
    }

    fn count(&self) -> usize {
        match self.has_many_labels() {
            false => labels_in(self.labels_text()).count(),
            true => self.label_index().len(),
        }
    }

    fn all(&self, mut holds: impl FnMut(&str, &str) -> bool) -> bool {
        labels_in(self.labels_text()).all(|(key, value)| holds(key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_in_their_text() {
        let text = r#"{"app":"web","tier":"","a.b/c":"app"}"#;
        for (key, value) in [
            ("app", Some("web")),
            ("tier", Some("")),
            ("a.b/c", Some("app")),
            ("web", None),
            ("", None),
        ] {
            assert_eq!(labelled(text).label(key), value, "{key}");
        }
        assert_eq!(labelled("").label("app"), None);
        assert_eq!(labelled("{}").label("app"), None);
    }

    fn labelled(labels: &str) -> Object {
        let labels_span = Span { start: 0, len: labels.len() as u32 };
        let bytes = Bytes::copy_from_slice(labels.as_bytes());
        let wire = Wire { bytes, revision: Span::default(), labels: labels_span };
        Object::readable("a", Revision(1), wire)
    }

    #[test]
    fn labels_of_large_set_are_found() {
        let labels = (0..1000).map(|i| format!(r#""k{}":"v{i}""#, i * 7919 % 1000));
        let object = labelled(&format!("{{{}}}", labels.collect::<Vec<_>>().join(",")));
        for i in 0..1000 {
            let (key, value) = (format!("k{}", i * 7919 % 1000), format!("v{i}"));
            assert_eq!(object.label(&key), Some(value.as_str()));
        }
        assert_eq!((object.label("k1000"), object.label(""), object.count()), (None, None, 1000));
    }

    #[test]
    fn object_is_decoded_once_for_each_type_while_current() {
        let object = labelled("{}");
        let mut decoded = 0;
        let mut number = |value: u64| {
            object.decoded(|_| {
                decoded += 1;
                Ok::<_, ()>(value)
            })
        };
        assert_eq!((number(1), number(2)), (Ok(Arc::new(1)), Ok(Arc::new(1))));
        assert_eq!(object.decoded(|_| Ok::<_, ()>("text")), Ok(Arc::new("text")));
        assert_eq!(number(3), Ok(Arc::new(1)));
        object.supersede();
        assert_eq!((number(4), number(5)), (Ok(Arc::new(4)), Ok(Arc::new(5))), "none is kept");
        assert_eq!(decoded, 3);
        assert_eq!(object.decoded(|_| Err::<String, _>("no")), Err("no"));
    }

    #[test]
    fn object_superseded_while_it_is_decoded_keeps_nothing() {
        let object = labelled("{}");
        let decode = |object: &Object| {
            object.supersede();
            Ok::<_, ()>(Arc::new(()))
        };
        let facts = object.decoded(decode).unwrap();
        assert_eq!(Arc::strong_count(&facts), 1);
    }
}
