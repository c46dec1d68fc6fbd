//! Descriptions of types and fields, as `kubectl explain` shows them.
//!
//! They are taken from the `k8s-openapi` crate's schemas when this crate is built, and lie in the
//! binary compressed. They are unpacked when a document is made, not before, and let go after.

use std::io::Read as _;

use flate2::read::DeflateDecoder;

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/texts.deflate"));

/// The descriptions of types and fields, unpacked.
///
/// ```
/// let texts = kevel_openapi_text::Texts::unpack();
/// assert!(texts.of_type("io.k8s.api.core.v1.Pod").is_some());
/// assert!(texts.of_field("io.k8s.api.core.v1.Pod", "spec").is_some());
/// assert!(texts.of_field("io.k8s.api.core.v1.Pod", "colour").is_none());
/// ```
#[derive(Debug, Default)]
pub struct Texts {
    unpacked: String,
    /// Position of each text.
    texts: Vec<(u32, u32)>,
    /// Position of each name, sorted, and the number of its text.
    names: Vec<(u32, u32, u32)>,
}

impl Texts {
    /// All descriptions.
    pub fn unpack() -> Self {
        let mut unpacked = String::new();
        // What the build wrote can be read; if not, documents go without words.
        if DeflateDecoder::new(PACKED).read_to_string(&mut unpacked).is_err() {
            return Texts::default();
        }
        let (texts, names) = unpacked.split_once('\u{1}').unwrap_or_default();
        let texts = spans(texts, 0);
        let parts = spans(names, unpacked.len() - names.len());
        let names = parts.chunks_exact(2).filter_map(|pair| {
            let [(start, end), (number, after)] = pair else { return None };
            let number = unpacked.get(*number as usize..*after as usize)?.parse().ok()?;
            Some((*start, *end, number))
        });
        let names = names.collect();
        Texts { texts, names, unpacked }
    }

    /// Description of a type such as `io.k8s.api.core.v1.Pod`.
    pub fn of_type(&self, name: &str) -> Option<&str> {
        self.find(name, "")
    }

    /// Description of a field.
    pub fn of_field(&self, name: &str, field: &str) -> Option<&str> {
        self.find(name, field)
    }

    fn find(&self, name: &str, field: &str) -> Option<&str> {
        let separator = if field.is_empty() { "" } else { "#" };
        let wanted = || [name, separator, field].into_iter().flat_map(str::bytes);
        let found = self
            .names
            .binary_search_by(|(start, end, _)| self.text(*start, *end).bytes().cmp(wanted()));
        let (_, _, number) = self.names.get(found.ok()?)?;
        let (start, end) = self.texts.get(*number as usize)?;
        Some(self.text(*start, *end))
    }

    fn text(&self, start: u32, end: u32) -> &str {
        self.unpacked.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// The descriptions as they lie in the binary.
pub fn packed() -> &'static [u8] {
    PACKED
}

/// Positions of the zero-separated parts of a text that begins at `offset`.
fn spans(text: &str, offset: usize) -> Vec<(u32, u32)> {
    let mut start = offset;
    let spans = text.split('\0').map(|part| {
        let span = (start as u32, (start + part.len()) as u32);
        start += part.len() + 1;
        span
    });
    spans.collect()
}
