//! Whether bytes are one data item at all. It is asked before any of it is read: what is not well-formed is told so first.

use super::error::{Error, Major, Result};
use super::head::{BREAK, INDEFINITE, ItemHead};
use super::{MAX_ELEMENTS, MAX_NESTING, MAX_PAIRS, float, tag};

/// Checks that the input is one item and nothing else.
pub(super) fn check(input: &[u8]) -> Result<()> {
    if input.is_empty() {
        return Err(Error::Empty.into());
    }
    let mut rest = input;
    skip(&mut rest)?;
    match rest.len() {
        0 => Ok(()),
        bytes => Err(Error::ExtraneousData { bytes, index: input.len() - bytes }.into()),
    }
}

/// The first item of a sequence of them, and the rest.
///
/// ```
/// assert_eq!(kevel_codec::cbor::first_item(b"\x81\x01\x02")?, (&b"\x81\x01"[..], &b"\x02"[..]));
/// # Ok::<(), kevel_codec::cbor::Error>(())
/// ```
pub fn first_item(input: &[u8]) -> std::result::Result<(&[u8], &[u8]), Error> {
    let mut rest = input;
    skip(&mut rest).map_err(|error| *error)?;
    Ok(input.split_at(input.len() - rest.len()))
}

/// A list, map or string that has not ended.
struct OpenItem {
    major: Major,
    /// Number of items to come; `None` up to a break.
    left: Option<u64>,
    /// Number of items so far, if the length is indefinite.
    seen: u64,
    depth: usize,
}

/// Moves the input behind the next item. Nesting costs no stack.
pub(super) fn skip(input: &mut &[u8]) -> Result<()> {
    let mut open: Vec<OpenItem> = Vec::new();
    loop {
        kevel_compute::charge(1);
        match item(input, open.last())? {
            Some(inner) => open.push(inner),
            None => open.last_mut().map_or(Ok(()), OpenItem::count)?,
        }
        while let Some(last) = open.last_mut() {
            if !last.ends(input)? {
                break;
            }
            open.pop();
            open.last_mut().map_or(Ok(()), OpenItem::count)?;
        }
        if open.is_empty() {
            return Ok(());
        }
    }
}

/// Passes an item, or the beginning of one that has items inside.
fn item(input: &mut &[u8], outer: Option<&OpenItem>) -> Result<Option<OpenItem>> {
    let mut depth = outer.map_or(0, |outer| outer.depth);
    if let Some(OpenItem { major: string @ (Major::Bytes | Major::Text), .. }) = outer {
        check_chunk(input, *string)?;
    }
    let mut head = head(input)?;
    if head.major == Major::Tag {
        head = tagged(input, head, &mut depth)?;
    }
    let left = match head.major {
        Major::Bytes | Major::Text if head.is_indefinite() => None,
        Major::Bytes | Major::Text => return string(input, head).map(|()| None),
        Major::Array | Major::Map => {
            depth += 1;
            check_depth(depth)?;
            (!head.is_indefinite()).then(|| items(head)).transpose()?
        }
        _ => return Ok(None),
    };
    Ok(Some(OpenItem { major: head.major, left, seen: 0, depth }))
}

impl OpenItem {
    /// Whether there are no more items; a break is passed.
    fn ends(&self, input: &mut &[u8]) -> Result<bool> {
        if let Some(left) = self.left {
            return Ok(left == 0);
        }
        match input.split_first() {
            None => Err(Error::UnexpectedEof.into()),
            Some((&BREAK, _)) if self.major == Major::Map && self.seen % 2 == 1 => {
                Err(Error::UnexpectedBreak.into())
            }
            Some((&BREAK, rest)) => {
                *input = rest;
                Ok(true)
            }
            Some(_) => Ok(false),
        }
    }

    /// Counts an item.
    fn count(&mut self) -> Result<()> {
        if let Some(left) = &mut self.left {
            *left -= 1;
            return Ok(());
        }
        self.seen += 1;
        match self.major {
            Major::Array if self.seen > MAX_ELEMENTS => Err(Error::TooManyElements.into()),
            Major::Map if self.seen / 2 > MAX_PAIRS => Err(Error::TooManyPairs.into()),
            _ => Ok(()),
        }
    }
}

/// Reads a head, and checks it by itself.
fn head(input: &mut &[u8]) -> Result<ItemHead> {
    let head = ItemHead::read(input)?;
    let ItemHead { major, information, argument } = head;
    match major {
        Major::Other if information == 24 && argument < 32 => {
            Err(Error::InvalidSimpleValue(argument).into())
        }
        Major::Other if head.is_indefinite() => Err(Error::UnexpectedBreak.into()),
        Major::Other => match float::of_head(head) {
            Some(float) if float.is_nan() => Err(Error::NotANumber.into()),
            Some(float) if float.is_infinite() => Err(Error::Infinity.into()),
            _ => Ok(head),
        },
        Major::Unsigned | Major::Negative | Major::Tag if head.is_indefinite() => {
            Err(Error::InvalidInformation { information, major }.into())
        }
        _ => Ok(head),
    }
}

/// The head behind tags.
fn tagged(input: &mut &[u8], mut tagged: ItemHead, depth: &mut usize) -> Result<ItemHead> {
    loop {
        let &next = input.first().ok_or(Error::UnexpectedEof)?;
        if tag::BIG_NUMBERS.contains(&tagged.argument) {
            return Err(Error::BigNumber.into());
        }
        if Major::of(next) != Major::Tag {
            return head(input);
        }
        tagged = head(input)?;
        *depth += 1;
        check_depth(*depth)?;
    }
}

/// A chunk must be a string of the type of the whole, and have no chunks itself.
fn check_chunk(input: &[u8], string: Major) -> Result<()> {
    let &next = input.first().ok_or(Error::UnexpectedEof)?;
    let chunk = Major::of(next);
    if chunk != string {
        return Err(Error::WrongChunk { chunk, string }.into());
    }
    match next & 31 {
        INDEFINITE => Err(Error::IndefiniteChunk(string).into()),
        _ => Ok(()),
    }
}

fn string(input: &mut &[u8], head: ItemHead) -> Result<()> {
    let rest = input.get(length(head)?..).ok_or(Error::UnexpectedEof)?;
    *input = rest;
    Ok(())
}

/// Number of items of a list or map.
fn items(head: ItemHead) -> Result<u64> {
    length(head)?;
    match head.major {
        Major::Map if head.argument > MAX_PAIRS => Err(Error::TooManyPairs.into()),
        Major::Map => Ok(head.argument * 2),
        _ if head.argument > MAX_ELEMENTS => Err(Error::TooManyElements.into()),
        _ => Ok(head.argument),
    }
}

fn length(head: ItemHead) -> Result<usize> {
    let ItemHead { major, argument: length, .. } = head;
    let error = || Error::LengthOverflow { major, length };
    Ok(i64::try_from(length)
        .ok()
        .and_then(|length| usize::try_from(length).ok())
        .ok_or_else(error)?)
}

fn check_depth(depth: usize) -> Result<()> {
    match depth > MAX_NESTING {
        true => Err(Error::TooDeep(MAX_NESTING).into()),
        false => Ok(()),
    }
}
