//! JSON patch (RFC 6902), with the extensions of the reference's library: indexes may be negative, and `replace` adds a
//! field that an object does not have.

mod decode;
mod operation;
mod reach;
#[cfg(test)]
mod tests;

use std::fmt;

use kevel_api::value::Value;
use kevel_codec::json::open;
pub use operation::Operation;
pub use reach::Reach;

/// Limit on the operations of a patch.
pub const MAX_OPERATIONS: usize = 10_000;

/// Limit on the depth of a patched tree, as in the decoder.
const MAX_DEPTH: usize = kevel_codec::json::MAX_DEPTH;

/// Limit on measurements of a tree's depth; useful patches need none.
const MAX_MEASURES: usize = 64;

/// Limit on the bytes of lists and maps that the operations of a patch may move to insert or remove elements: half a
/// second's work. Ten thousand insertions at the front of a list of as many elements take half of it; only lists of a
/// million reach it.
const MAX_MOVED: usize = 2 << 30;

/// A JSON patch: a sequence of operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    operations: Vec<Operation>,
}

/// Error of decoding or applying a JSON patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The patch cannot be decoded: 400, with this message.
    Decode(String),
    /// The patch has more than [`MAX_OPERATIONS`]: 413.
    TooManyOperations(usize),
    /// The patch does not fit the document: 422; the reference does not return this message.
    Apply(String),
    /// A `test` operation failed: 422, without this message.
    TestFailed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Decode(message) | Error::Apply(message) | Error::TestFailed(message) => {
                f.write_str(message)
            }
            Error::TooManyOperations(count) => write!(
                f,
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
            ),
        }
    }
}

impl std::error::Error for Error {}

impl Patch {
    /// Makes a patch of these operations.
    pub fn new(operations: Vec<Operation>) -> Self {
        Patch { operations }
    }

    /// Operations, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Applies the operations to an object's tree in order, all or none.
    ///
    /// `copy_limit` bounds the bytes of JSON that `copy` may add; 0 is unlimited.
    ///
    /// ```
    /// use kevel_codec::json::{Unknown, decode_any, encode_any};
    /// use kevel_patch::json_patch::Patch;
    /// let patch = br#"[{"op":"add","path":"/a/-","value":2},{"op":"remove","path":"/b"}]"#;
    /// let (patch, _) = Patch::decode(patch, Unknown::Report)?;
    /// let document = decode_any(br#"{"a":[1],"b":true}"#, Unknown::Ignore)?.value;
    /// let mut out = Vec::new();
    /// encode_any(&patch.apply(document, 0)?, &mut out);
    /// assert_eq!(out, br#"{"a":[1,2]}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply(&self, mut document: Value, copy_limit: usize) -> Result<Value, Error> {
        let mut limits = Limits::new(copy_limit, depth(&document));
        for operation in &self.operations {
            operation.apply(&mut document, &mut limits)?;
            if limits.depth > MAX_DEPTH {
                limits.measure(&document).map_err(Error::Apply)?;
            }
        }
        Ok(document)
    }
}

/// Document after a patch that is known to apply, both compact JSON, as the reference's library writes it: keys are
/// sorted in the objects that the patch touches, and everything else stays as it was.
pub(crate) fn replayed(document: &str, patch: &str) -> Option<Value> {
    let Value::List(operations) = open(patch) else { return None };
    let mut document = open(document);
    let mut limits = Limits::new(0, 0);
    for operation in operations {
        Operation::unread(operation).replay(&mut document, &mut limits)?;
    }
    Some(document)
}

/// Limits of the operations of one patch together.
#[derive(Debug)]
struct Limits {
    copy: usize,
    copied: usize,
    /// Upper bound of the tree's depth; operations raise it, measuring lowers it.
    depth: usize,
    measures: usize,
    moved: usize,
}

impl Limits {
    fn new(copy: usize, depth: usize) -> Self {
        Limits { copy, copied: 0, depth, measures: 0, moved: 0 }
    }

    fn count_copy(&mut self, size: usize) -> Result<(), String> {
        self.copied += size;
        if self.copy > 0 && self.copied > self.copy {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, \
                 exceeding the limit {}",
                self.copied, self.copy
            ));
        }
        Ok(())
    }

    /// Counts the elements behind one that is inserted or removed.
    fn count_move<T>(&mut self, elements: usize) -> Result<(), String> {
        self.moved = self.moved.saturating_add(elements * size_of::<T>());
        match self.moved > MAX_MOVED {
            true => Err("the operations move too much of the document".to_owned()),
            false => Ok(()),
        }
    }

    fn put(&mut self, at: usize, depth: usize) {
        self.depth = self.depth.max(at.saturating_add(depth));
    }

    fn measure(&mut self, document: &Value) -> Result<(), String> {
        self.measures += 1;
        self.depth = depth(document);
        if self.depth > MAX_DEPTH || self.measures > MAX_MEASURES {
            return Err("exceeded max depth".to_owned());
        }
        Ok(())
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::List(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Map(map) => 1 + map.iter().map(|(_, value)| depth(value)).max().unwrap_or_default(),
        _ => 0,
    }
}
