//! The entries of a map that is a struct: each key at most once, be it a field's name or not.

use std::borrow::Cow;
use std::collections::HashSet;

use kevel_api::quote::quote;
use kevel_api::value::Value;

use super::any::integer;
use super::error::{Error, Major, Result, TypeError};
use super::reader::{CborReader, keep_first};
use crate::protobuf;

impl<'i> CborReader<'i> {
    /// Reads a map as a struct: `position` finds the field of a name, below 64, and `field` reads its value.
    pub(super) fn fields(
        &mut self,
        position: impl Fn(&str) -> Option<usize>,
        mut field: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        let mut items = self.items()?;
        let mut first = None;
        // A bit for each field that has been named, and the keys that name none.
        let (mut named, mut unknown) = (0u64, HashSet::new());
        while let Some(index) = self.next(&mut items) {
            let Some(key) = self.field_key(&mut first) else {
                self.skip()?;
                continue;
            };
            let ended = match key.name().and_then(&position) {
                Some(place) if named >> place & 1 == 0 => {
                    named |= 1 << place;
                    let read = field(self, place);
                    keep_first(&mut first, read);
                    continue;
                }
                Some(_) => Some(key.duplicate(index)),
                None if self.strict => Some(Error::UnknownField(index).into()),
                None => unknown.replace(key).map(|key| key.duplicate(index)),
            };
            self.skip()?;
            if let Some(error) = ended {
                self.skip_pairs(&mut items)?;
                return Err(error);
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// A key. One that cannot be a field's name is an error, and may still be there twice; `None` if it is no key at all.
    fn field_key(&mut self, first: &mut Option<Box<Error>>) -> Option<FieldKey<'i>> {
        let major = Major::of(self.peek());
        match major {
            Major::Text => keep_first(first, self.utf8()).map(FieldKey::Name),
            Major::Bytes => keep_first(first, self.bytes()).map(FieldKey::Name),
            // Without its highest bit, where there is one.
            Major::Unsigned => {
                keep_first(first, self.head()).map(|head| FieldKey::Number(head.argument as i64))
            }
            Major::Negative => {
                let number = self.head().and_then(|head| {
                    let note = || format!("-1-{} overflows Go's int64", head.argument);
                    let number = i64::try_from(integer(head));
                    number.map_err(|_| TypeError::with_note(major, "int64", note()))
                });
                keep_first(first, number).map(FieldKey::Number)
            }
            _ => {
                let note = format!(
                    "map key is of type {major} and cannot be used to match struct field name"
                );
                first.get_or_insert(TypeError::with_note(major, "string", note));
                FieldKey::of(self.any().ok()?)
            }
        }
    }
}

/// A key of whatever type.
#[derive(PartialEq, Eq, Hash)]
enum FieldKey<'i> {
    Name(Cow<'i, [u8]>),
    Number(i64),
    /// Anything else that Go takes for a key, as it prints it.
    Other(String),
}

impl FieldKey<'_> {
    /// The key that a value without a type is, if it can be one.
    fn of(value: Value) -> Option<Self> {
        Some(match value {
            Value::Null => FieldKey::Other("<nil>".to_owned()),
            Value::Bool(said) => FieldKey::Other(said.to_string()),
            Value::Int(number) => FieldKey::Number(number),
            Value::Float(number) => FieldKey::Other(number.to_string()),
            Value::String(text) => FieldKey::Name(text.into_string().into_bytes().into()),
            Value::List(_) | Value::Map(_) | Value::Raw(_) => return None,
        })
    }

    /// The text that may be a field's name.
    fn name(&self) -> Option<&str> {
        match self {
            FieldKey::Name(name) => std::str::from_utf8(name).ok(),
            _ => None,
        }
    }

    fn duplicate(&self, index: usize) -> Box<Error> {
        let key = match self {
            FieldKey::Name(name) => quote(&protobuf::text(name)),
            FieldKey::Number(number) => number.to_string(),
            FieldKey::Other(text) => text.clone(),
        };
        Box::new(Error::DuplicateKey { key, index })
    }
}

/// An error with the field that it is in. Each struct around it says its own: the outermost is told.
pub(super) fn in_field(
    mut error: Box<Error>,
    package: &str,
    structure: &str,
    field: &str,
) -> Box<Error> {
    if let Error::Type(error) = &mut *error {
        error.field = Some(format!("{package}.{structure}.{field}"));
    }
    error
}
