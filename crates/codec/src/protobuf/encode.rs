//! Protobuf encoder, back to front: members from the last tag to the first, lists and maps from their last element, and
//! each length after its content.

use compact_str::CompactString;
use kevel_api::schema::{Choice, Field, Role, Scalar, Schema, StructSchema, Type};
use kevel_api::value::Value;

use super::scalar;
use super::wire::Buffer;

/// Initial capacity: most objects fit; a larger one doubles the buffer a few times.
const CAPACITY: usize = 4096;

/// Encodes a value, without an envelope.
pub fn encode(value: &Value, schema: Schema<'_>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.object(value, schema);
    writer.out.finish()
}

type Entry = (CompactString, Value);

pub(super) struct Writer<'v> {
    pub out: Buffer,
    /// Field values of each struct that is being encoded, by position.
    slots: Vec<Option<&'v Value>>,
}

impl<'v> Writer<'v> {
    pub(super) fn new() -> Self {
        Writer { out: Buffer::with_capacity(CAPACITY), slots: Vec::with_capacity(128) }
    }

    /// Writes the members of a message without a key and length.
    pub(super) fn object(&mut self, value: &'v Value, schema: Schema<'_>) {
        if let Some(of) = schema.as_struct() {
            self.members(entries(value), of);
        }
    }

    fn members(&mut self, entries: &'v [Entry], of: StructSchema<'_>) {
        kevel_compute::charge(2);
        let base = self.slots.len();
        self.place(entries, of);
        for member in of.members().iter().rev() {
            match member.role {
                Role::Field(position) => {
                    let position = position as usize;
                    let value = self.slots.get(base + position).copied().flatten();
                    if let Some(field) = of.field_at(position) {
                        self.field(member.tag, field, value);
                    }
                }
                Role::Inline(id) => {
                    let end = self.out.len();
                    if let Some(inner) = of.other(id).as_struct() {
                        self.members(entries, inner);
                    }
                    self.out.delimit(member.tag, end);
                }
            }
        }
        self.slots.truncate(base);
    }

    /// Places each entry in its field's slot.
    fn place(&mut self, entries: &'v [Entry], of: StructSchema<'_>) {
        let base = self.slots.len();
        self.slots.resize(base + of.entries().len(), None);
        let slots = &mut self.slots[base..];
        of.for_each_field(entries, |index, _, entry| {
            if let Some((_, value)) = entry.and_then(|entry| entries.get(entry)) {
                slots[index] = Some(value);
            }
        });
    }

    fn field(&mut self, tag: u16, field: Field<'_>, value: Option<&'v Value>) {
        if value.is_none() && field.pointer() {
            return;
        }
        let schema = field.schema();
        match (schema.ty(), value.filter(|value| !value.is_null())) {
            (Type::List { message: false, .. }, value) => {
                self.items(tag, schema, value.and_then(Value::as_list).unwrap_or_default());
            }
            (Type::Map { value: id, .. }, value) => {
                let of = schema.other(*id);
                for (key, value) in value.map(entries).unwrap_or_default().iter().rev() {
                    let end = self.out.len();
                    self.value(2, of, value);
                    self.out.text(1, key.as_bytes());
                    self.out.delimit(tag, end);
                }
            }
            (_, Some(value)) => self.value(tag, schema, value),
            (Type::List { .. } | Type::Union { .. }, None) => {}
            (_, None) if field.pointer() => {}
            (_, None) => self.value(tag, schema, &Value::Null),
        }
    }

    fn items(&mut self, tag: u16, list: Schema<'_>, items: &'v [Value]) {
        kevel_compute::charge(items.len());
        if let Some(of) = list.item() {
            for item in items.iter().rev() {
                self.value(tag, of, item);
            }
        }
    }

    /// Writes a value as a member; a value of a wrong type counts as zero.
    fn value(&mut self, tag: u16, schema: Schema<'_>, value: &'v Value) {
        let end = self.out.len();
        match schema.ty() {
            Type::Scalar(of) => return scalar::write(&mut self.out, tag, *of, value),
            Type::Struct(_) => self.object(value, schema),
            Type::List { message: true, .. } => {
                self.items(1, schema, value.as_list().unwrap_or_default());
            }
            Type::Union { object, other } => self.union(schema, *object, *other, value),
            // Lists of lists and untyped trees have no protobuf form.
            Type::List { .. } | Type::Map { .. } | Type::Any => return,
        }
        self.out.delimit(tag, end);
    }

    fn union(&mut self, union: Schema<'_>, object: Choice, other: Choice, value: &'v Value) {
        let is_object = value.as_map().is_some();
        let mut choices = [object, other];
        choices.sort_by_key(|choice| std::cmp::Reverse(choice.tag));
        for choice in choices {
            let schema = union.other(choice.ty);
            match schema.ty() {
                Type::Struct(_) if is_object => self.value(choice.tag, schema, value),
                Type::Struct(_) => {}
                // The boolean of an object is `true`.
                Type::Scalar(Scalar::Bool) if is_object => self.out.number(choice.tag, 1),
                Type::List { .. } => {
                    self.items(choice.tag, schema, value.as_list().unwrap_or_default());
                }
                _ => self.value(choice.tag, schema, value),
            }
        }
    }
}

fn entries(value: &Value) -> &[Entry] {
    value.as_map().map(|map| map.entries()).unwrap_or_default()
}
