//! Fast decoder of FieldsV1 in its stored form, in one pass, because every write decodes it. Text with white space,
//! unusual escapes or errors is left to the general decoder.

use std::borrow::Cow;

use compact_str::CompactString;
use kevel_api::value::{Map, Value};
use kevel_codec::json::MAX_DEPTH;

use super::read_element;
use crate::managed_fields::path::PathElement;
use crate::managed_fields::set::{Node, Set};

/// Decodes a whole document.
pub(super) fn set(json: &str) -> Option<Set> {
    let mut text = Text(json);
    let (set, _) = text.set(0)?;
    text.0.is_empty().then_some(set)
}

/// Decodes a scalar, or an object of scalars.
pub(super) fn value(json: &str) -> Option<Value> {
    let mut text = Text(json);
    let value = if json.starts_with('{') { text.object()? } else { text.scalar()? };
    text.0.is_empty().then_some(value)
}

/// Rest of the text.
struct Text<'t>(&'t str);

impl<'t> Text<'t> {
    fn take(&mut self, prefix: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(prefix)?;
        Some(())
    }

    /// Decodes a set, and whether its holder is a member.
    fn set(&mut self, depth: usize) -> Option<(Set, bool)> {
        self.take("{")?;
        if self.take("}").is_some() {
            return Some((Set::new(), true));
        }
        if depth == MAX_DEPTH {
            return None;
        }
        let mut nodes = Vec::new();
        let mut member = false;
        loop {
            let element = match self.field() {
                Some(field) => Some(field),
                None => match self.string()? {
                    key if key == "." => {
                        member = true;
                        None
                    }
                    key => read_element(&key).ok()?,
                },
            };
            self.take(":")?;
            let (children, is_member) = self.set(depth + 1)?;
            if let Some(element) = element {
                nodes.push(Node { element, member: is_member, children });
            }
            if self.take("}").is_some() {
                break;
            }
            self.take(",")?;
        }
        let set = Set::from_nodes(nodes);
        member |= set.is_empty();
        Some((set, member))
    }

    /// Decodes a key that names a field, without escapes, as most do.
    fn field(&mut self) -> Option<PathElement> {
        let text = self.0.strip_prefix("\"f:")?;
        let end = text.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let (name, rest) = text.split_at_checked(end)?;
        self.0 = rest.strip_prefix('"')?;
        Some(PathElement::field(name))
    }

    fn object(&mut self) -> Option<Value> {
        self.take("{")?;
        let mut entries = thin_vec::ThinVec::new();
        loop {
            let key = self.string()?;
            self.take(":")?;
            entries.push((CompactString::from(key), self.scalar()?));
            if self.take("}").is_some() {
                return Some(Value::Map(Map::from_entries(entries)));
            }
            self.take(",")?;
        }
    }

    fn scalar(&mut self) -> Option<Value> {
        if self.0.starts_with('"') {
            return self.string().map(|text| Value::String(text.into()));
        }
        for (word, value) in [("true", true), ("false", false)] {
            if self.take(word).is_some() {
                return Some(Value::Bool(value));
            }
        }
        let end = self.0.find([',', '}']).unwrap_or(self.0.len());
        let (number, rest) = self.0.split_at(end);
        // Leading zeros and signs that JSON does not allow are left to the general decoder.
        let plain = number == "0" || matches!(number.as_bytes().first(), Some(b'1'..=b'9'));
        let value = number.parse().ok().filter(|_| plain).map(Value::Int)?;
        self.0 = rest;
        Some(value)
    }

    fn string(&mut self) -> Option<Cow<'t, str>> {
        self.take("\"")?;
        let text = self.0;
        let mut unescaped = String::new();
        let mut from = 0;
        let mut bytes = text.bytes().enumerate();
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.0 = text.get(at + 1..)?;
                    let last = text.get(from..at)?;
                    if from == 0 {
                        return Some(Cow::Borrowed(last));
                    }
                    unescaped.push_str(last);
                    return Some(Cow::Owned(unescaped));
                }
                b'\\' => {
                    let (_, b'"' | b'\\') = bytes.next()? else { return None };
                    // The escaped character begins the next run.
                    unescaped.push_str(text.get(from..at)?);
                    from = at + 1;
                }
                0..0x20 => return None,
                _ => {}
            }
        }
        None
    }
}
