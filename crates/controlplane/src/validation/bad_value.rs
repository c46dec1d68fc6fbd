//! Values as messages show them.

use kevel_api::builtin;
use kevel_api::field_error::{BadValue, MAX_VALUE_BYTES};
use kevel_api::gvk::GroupVersion;
use kevel_api::schema::{Place, Scalar};
use kevel_api::unified_diff::unified_diff;
use kevel_api::value::Value;
use kevel_codec::json::{self, Form};

use super::Field;

impl Field<'_, '_> {
    /// The value as messages show it: texts quoted, everything else as JSON, structs in their internal
    /// form. Not written down where there will be no message.
    pub fn bad_value(&self) -> BadValue {
        match self.value {
            Some(Value::String(text)) => BadValue::from(text.as_str()),
            None if self.is_plain_text() => BadValue::from(""),
            _ => self.bad_value_in(Form::Internal),
        }
    }

    /// The same where the reference hands on what the field holds as it is: texts are quoted as JSON
    /// quotes them, unless they are nothing but texts.
    pub fn bad_value_by_type(&self) -> BadValue {
        match self.is_plain_text() {
            true => self.bad_value(),
            false => self.bad_value_in(Form::Internal),
        }
    }

    /// The value as JSON, as the reference shows texts that have a type of their own.
    pub fn bad_value_as_json(&self) -> BadValue {
        match self.value {
            None if self.place().is_none() => BadValue::named_string(""),
            _ => self.bad_value_in(Form::Internal),
        }
    }

    /// The value as JSON in the version that was written, which is what rules are about that the
    /// reference declares beside fields.
    pub fn bad_value_versioned(&self) -> BadValue {
        self.bad_value_in(Form::Versioned)
    }

    /// How the value differs from an old one, line by line; nothing where there will be no message.
    pub fn differences(&self, old: &Field) -> String {
        self.place().map_or_else(String::new, |place| self.differences_in(place, old))
    }

    /// The same of a struct whose fields stand among those of the one that is here.
    pub fn differences_of_inlined(&self, name: &str, old: &Field) -> String {
        let structure = self.place().and_then(|place| place.schema.as_struct());
        let inlined = structure.and_then(|structure| structure.inlined(name));
        let place = inlined.map(|schema| Place { schema, field: None });
        place.map_or_else(String::new, |place| self.differences_in(place, old))
    }

    fn differences_in(&self, place: Place<'_>, old: &Field) -> String {
        if self.is_full() {
            return String::new();
        }
        let text = |value: Option<&Value>| {
            let compact = json::message_text_as(value, place, Form::Internal);
            let mut lines = Vec::new();
            json::indent_by(1, compact.as_bytes(), &mut lines);
            // What is cut is not compared.
            String::from_utf8(lines).ok().filter(|_| compact.len() <= MAX_VALUE_BYTES)
        };
        match (text(old.value), text(self.value)) {
            (Some(old), Some(new)) => unified_diff(&old, &new),
            _ => String::new(),
        }
    }

    fn bad_value_in(&self, form: Form) -> BadValue {
        if self.is_full() {
            return BadValue::Omitted;
        }
        BadValue::Text(match (self.place(), self.value) {
            (Some(place), value) => json::message_text_as(value, place, form),
            (None, Some(value)) => json::message_text(value),
            (None, None) => "null".to_owned(),
        })
    }

    /// Whether a text stands here that has no type of its own, and is no pointer.
    fn is_plain_text(&self) -> bool {
        let Some(place) = self.place() else {
            return self.value.is_none_or(|value| value.as_str().is_some());
        };
        place.schema.scalar() == Some(Scalar::String)
            && place.field.is_none_or(|field| !field.internal_pointer() && field.go().is_none())
    }

    /// What may stand here, if the object's kind is known.
    pub(super) fn place(&self) -> Option<Place<'static>> {
        let root = self.context.root;
        let version: GroupVersion = root.str_at(&["apiVersion"]).parse().ok()?;
        let kind = root.str_at(&["kind"]);
        builtin::schema(&version.group, &version.version, kind)?.place(&self.path)
    }
}

/// No value at all.
pub fn null() -> BadValue {
    BadValue::Text("null".to_owned())
}

/// A struct of the reference that no object has, with its fields' names in Go.
pub fn record(fields: &[(&str, &str)]) -> BadValue {
    let field = |(name, value): &(&str, &str)| match BadValue::named_string(value) {
        BadValue::Text(value) => format!("{name:?}:{value}"),
        _ => String::new(),
    };
    BadValue::Text(format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(",")))
}
