//! Parallel iteration over two maps.

use compact_str::CompactString;
use kevel_api::value::{Map, Value};

/// All keys of two maps, in order, with the value in each.
pub(crate) fn zip<'v>(
    a: Option<&'v Map>,
    b: Option<&'v Map>,
) -> impl Iterator<Item = (&'v CompactString, Option<&'v Value>, Option<&'v Value>)> {
    let mut a = a.map(Map::entries).unwrap_or_default().iter().peekable();
    let mut b = b.map(Map::entries).unwrap_or_default().iter().peekable();
    std::iter::from_fn(move || {
        kevel_compute::charge(1);
        let key = [a.peek(), b.peek()].into_iter().flatten().map(|entry| &entry.0).min()?;
        let first = a.next_if(|(other, _)| other == key).map(|(_, value)| value);
        let second = b.next_if(|(other, _)| other == key).map(|(_, value)| value);
        Some((key, first, second))
    })
}
