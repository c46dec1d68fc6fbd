//! Fast path for built-in objects in the order in which Go's encoder and Kevel's write them: kind, apiVersion and
//! metadata stand in front, so nothing behind the labels is parsed.

use bytes::Bytes;

use super::members::{members, string_end, value_end};
use super::{BEFORE_REVISION, Span, Wire, push_revision};
use crate::Revision;

/// The fields of `ObjectMeta` between resourceVersion and labels.
const BEFORE_LABELS: [&[u8]; 4] =
    [b"generation", b"creationTimestamp", b"deletionTimestamp", b"deletionGracePeriodSeconds"];
/// The fields of `ObjectMeta` behind labels.
const BEHIND_LABELS: [&[u8]; 4] =
    [b"annotations", b"ownerReferences", b"finalizers", b"managedFields"];

/// Wire bytes; `None` if the JSON is not in the encoder's order.
pub(super) fn wire(stored: &[u8], revision: Revision) -> Option<Wire> {
    let mut types = members(stored)?;
    let (kind, version) = (types.next()??.0, types.next()??.0);
    if (kind, version) != (b"kind", b"apiVersion") {
        return None;
    }
    let metadata = types.rest.strip_prefix(b"\"metadata\":{")?;
    let Head { before_revision, mut labels } = head(metadata)?;
    let (before, behind) = metadata.split_at_checked(before_revision)?;
    let mut out = Vec::with_capacity(stored.len() + 40);
    out.extend_from_slice(b"{\"metadata\":{");
    out.extend_from_slice(before);
    let revision = push_revision(&mut out, revision);
    if behind.first() == Some(&b'"') {
        out.push(b',');
    }
    if labels.len > 0 {
        labels.start += (out.len() - before_revision) as u32;
    }
    out.extend_from_slice(behind);
    out.push(b'}');
    out.shrink_to_fit();
    Some(Wire { bytes: Bytes::from(out), revision, labels })
}

struct Head {
    /// Number of bytes of the metadata before its resourceVersion.
    before_revision: usize,
    labels: Span,
}

/// Parses metadata up to its labels.
fn head(metadata: &[u8]) -> Option<Head> {
    let mut head = Head { before_revision: 0, labels: Span::default() };
    let (mut at, mut last) = (0, MemberPosition::BeforeRevision);
    while metadata.get(at) == Some(&b'"') {
        let text = metadata.get(at..)?;
        let end = string_end(text)?;
        let place = place(text.get(1..end - 1)?)?;
        if place < last {
            return None;
        }
        last = place;
        let value = text.get(end..)?.strip_prefix(b":")?;
        let start = at + end + 1;
        let len = match place {
            MemberPosition::BehindLabels => return Some(head),
            _ => value_end(value)?,
        };
        match place {
            MemberPosition::BeforeRevision => head.before_revision = start + len,
            // Encoders write labels without white space; labels with it take the general path.
            MemberPosition::Labels
                if memchr::memchr3(b' ', b'\n', b'\t', value.get(..len)?).is_some() =>
            {
                return None;
            }
            MemberPosition::Labels => head.labels = Span { start: start as u32, len: len as u32 },
            MemberPosition::BeforeLabels | MemberPosition::BehindLabels => {}
        }
        at = start + len;
        if metadata.get(at) == Some(&b',') {
            at += 1;
        }
    }
    (metadata.get(at) == Some(&b'}')).then_some(head)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MemberPosition {
    BeforeRevision,
    BeforeLabels,
    Labels,
    BehindLabels,
}

fn place(key: &[u8]) -> Option<MemberPosition> {
    match key {
        b"labels" => Some(MemberPosition::Labels),
        key if BEFORE_REVISION.contains(&key) => Some(MemberPosition::BeforeRevision),
        key if BEFORE_LABELS.contains(&key) => Some(MemberPosition::BeforeLabels),
        key if BEHIND_LABELS.contains(&key) => Some(MemberPosition::BehindLabels),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::wire::{KeyOrder, any_wire};

    fn object(metadata: &str) -> String {
        format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{{metadata}}},"spec":{{}}}}"#)
    }

    #[test]
    fn is_what_looking_at_everything_finds() {
        for metadata in [
            "",
            r#""name":"a""#,
            r#""labels":{"x":"y"}"#,
            r#""name":"a","uid":"u","generation":1,"labels":{"x":"}"},"annotations":{}"#,
            r#""generation":1,"managedFields":[{"x":{}}]"#,
        ] {
            let stored = object(metadata);
            let found = any_wire(stored.as_bytes(), Revision(7), KeyOrder::Struct, false);
            assert!(found.is_some());
            assert_eq!(wire(stored.as_bytes(), Revision(7)), found, "{metadata}");
        }
    }

    #[test]
    fn what_is_not_in_order_is_left() {
        for metadata in [
            r#""labels":{},"name":"a""#,
            r#""name":"a","resourceVersion":"3""#,
            r#""name":"a","x":1"#,
            r#""name":"a",,"labels":{}"#,
        ] {
            assert_eq!(wire(object(metadata).as_bytes(), Revision(7)), None, "{metadata}");
        }
        assert_eq!(wire(br#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#, Revision(7)), None);
    }
}
