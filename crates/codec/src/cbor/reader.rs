//! The reader of an item that is known to be well-formed.
//!
//! As in the reference, what is wrong inside of a list or map does not end it: the rest is read on, and the first error
//! counts, unless a key that is there twice or a field that is not known ends the map. So every method leaves the reader
//! behind its item, also where it fails.

use kevel_api::value::Value;

use super::error::{Error, Major, Result};
use super::head::{BREAK, ItemHead};
use super::string::LaterEncoding;
use super::{MAX_DEPTH, tag, well_formed};

pub(super) struct CborReader<'i> {
    /// Bytes that have not been read.
    pub rest: &'i [u8],
    /// Encoding of byte strings as text, by the innermost tag that says so.
    pub later: Option<LaterEncoding>,
    /// Whether a field that is not known is an error.
    pub strict: bool,
    /// The first document inside the document that has no JSON form: seen by the reference after everything else.
    pub document: Option<Box<Error>>,
    /// Fields of the structs under way, the innermost last.
    pub values: Vec<Value>,
    depth: usize,
    /// Number of elements and entries that may still come.
    room: usize,
}

/// Most elements and entries of all lists and maps together: a byte can make one that takes twenty-four. (Objects
/// that people make have a hundredth of it, and requests are refused with fewer.)
const MAX_VALUES: usize = 1 << 20;

/// A list or map under way.
#[derive(Debug)]
pub(super) struct ItemCount {
    /// Number of items or pairs that are left; `None` up to a break.
    left: Option<u64>,
    /// Number of those that have been begun.
    begun: usize,
}

impl<'i> CborReader<'i> {
    /// A reader of bytes that are one item and nothing else.
    pub fn new(input: &'i [u8], strict: bool) -> Result<Self> {
        well_formed::check(input)?;
        Ok(CborReader {
            rest: input,
            later: None,
            strict,
            document: None,
            values: Vec::new(),
            depth: 0,
            room: MAX_VALUES,
        })
    }

    /// Reads an item as a value of its own, as a type with a reader of its own does: without the tags around it.
    pub fn inside<T>(
        &mut self,
        strict: bool,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let (later, outer) = (self.later.take(), std::mem::replace(&mut self.strict, strict));
        let value = read(self);
        (self.later, self.strict) = (later, outer);
        value
    }

    /// The first byte of the next item.
    pub fn peek(&self) -> u8 {
        self.rest.first().copied().unwrap_or(BREAK)
    }

    /// Whether the next item is null, or undefined, which a pointer takes for null.
    pub fn at_null(&self) -> bool {
        matches!(self.peek(), 0xf6 | 0xf7)
    }

    pub fn head(&mut self) -> Result<ItemHead> {
        ItemHead::read(&mut self.rest)
    }

    /// Passes the next item.
    pub fn skip(&mut self) -> Result<()> {
        well_formed::skip(&mut self.rest)
    }

    /// Bytes of the next item, which is skipped.
    pub fn raw(&mut self) -> Result<&'i [u8]> {
        let before = self.rest;
        self.skip()?;
        Ok(before.get(..before.len() - self.rest.len()).unwrap_or_default())
    }

    /// Passes the tags that have no meaning, before a type that reads the rest itself.
    pub fn pass_self_described(&mut self) -> Result<()> {
        let mut rest = self.rest;
        while rest.first().is_some_and(|byte| Major::of(*byte) == Major::Tag) {
            if ItemHead::read(&mut rest)?.argument != tag::SELF_DESCRIBED {
                break;
            }
            self.rest = rest;
        }
        Ok(())
    }

    /// Validates the content of tags with a meaning. An item with a wrong one is skipped.
    pub fn check_tags(&mut self) -> Result<()> {
        let mut rest = self.rest;
        while rest.first().is_some_and(|byte| Major::of(*byte) == Major::Tag) {
            let tag = ItemHead::read(&mut rest)?.argument;
            let next = rest.first().copied().unwrap_or(BREAK);
            if let Some(expected) = expected_content(tag, next) {
                self.skip()?;
                return Err(Error::TagContent { tag, expected, found: Major::of(next) }.into());
            }
        }
        Ok(())
    }

    /// Reads the content of the tags before an item. Their expected encoding of byte strings applies up to its end.
    pub fn tagged<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.check_tags()?;
        let later = self.later;
        while Major::of(self.peek()) == Major::Tag {
            let tag = self.head()?.argument;
            self.later = LaterEncoding::of(tag).or(self.later);
        }
        let value = read(self);
        self.later = later;
        value
    }

    /// Reads the content of a list, map or struct, one level deeper.
    pub fn down<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            self.skip()?;
            return Err(Error::TooDeep(MAX_DEPTH).into());
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Reads an element or entry, unless there are too many.
    pub fn counted<T>(&mut self, read: &mut impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        match self.room.checked_sub(1) {
            Some(room) => self.room = room,
            None => {
                self.skip()?;
                return Err(Error::TooManyValues.into());
            }
        }
        read(self)
    }

    /// Begins a list or map.
    pub fn items(&mut self) -> Result<ItemCount> {
        let head = self.head()?;
        Ok(ItemCount { left: (!head.is_indefinite()).then_some(head.argument), begun: 0 })
    }

    /// The place of the next item or pair of a list or map, if there is one.
    pub fn next(&mut self, items: &mut ItemCount) -> Option<usize> {
        match &mut items.left {
            Some(0) => return None,
            Some(left) => *left -= 1,
            None if self.peek() == BREAK => {
                self.rest = self.rest.get(1..).unwrap_or_default();
                return None;
            }
            None => {}
        }
        kevel_compute::charge(1);
        items.begun += 1;
        Some(items.begun - 1)
    }

    /// Passes the rest of a map.
    pub fn skip_pairs(&mut self, items: &mut ItemCount) -> Result<()> {
        while self.next(items).is_some() {
            self.skip()?;
            self.skip()?;
        }
        Ok(())
    }
}

/// The content that a tag must have, if the item that begins with `next` is not that.
fn expected_content(tag: u64, next: u8) -> Option<&'static str> {
    let major = Major::of(next);
    match tag {
        tag::TEXT_TIME if major != Major::Text => Some("text string"),
        tag::EPOCH_TIME
            if !matches!(major, Major::Unsigned | Major::Negative)
                && !matches!(next, 0xf9..=0xfb) =>
        {
            Some("integer or floating-point number")
        }
        _ => None,
    }
}

/// Keeps the first error.
pub(super) fn keep_first<T>(first: &mut Option<Box<Error>>, result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            first.get_or_insert(error);
            None
        }
    }
}
