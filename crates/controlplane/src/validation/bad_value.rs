//! Bad values in error messages.

use kevel_api::builtin;
use kevel_api::field_error::{BadValue, MAX_VALUE_BYTES};
use kevel_api::gvk::GroupVersion;
use kevel_api::schema::{Place, Scalar};
use kevel_api::unified_diff::unified_diff;
use kevel_api::value::Value;
use kevel_codec::json::{self, Form};

use super::Field;

impl Field<'_, '_> {
    /// Bad value of a message: texts quoted, everything else as JSON, structs in their internal form. Not computed if
    /// there will be no message.
    pub fn bad_value(&self) -> BadValue {
        match self.value {
            Some(Value::String(text)) => BadValue::from(text.as_str()),
            None if self.is_plain_text() => BadValue::from(""),
            _ => self.bad_value_in(Form::Internal),
        }
    }

    /// Bad value where the reference passes the field itself: texts with a named type or behind a pointer are quoted
    /// as JSON.
    pub fn bad_value_by_type(&self) -> BadValue {
        match self.is_plain_text() {
            true => self.bad_value(),
            false => self.bad_value_in(Form::Internal),
        }
    }

    /// Bad value as JSON, as the reference shows texts of a named type.
    pub fn bad_value_as_json(&self) -> BadValue {
        match self.value {
            None if self.place().is_none() => BadValue::named_string(""),
            _ => self.bad_value_in(Form::Internal),
        }
    }

    /// Bad value as JSON in the written version, for rules that are declarative in the reference.
    pub fn bad_value_versioned(&self) -> BadValue {
        self.bad_value_in(Form::Versioned)
    }

    /// Differences from an old value, line by line; empty if there will be no message.
    pub fn differences(&self, old: &Field) -> String {
        self.place().map_or_else(String::new, |place| self.differences_in(place, old))
    }

    /// Differences of an inlined struct of this one.
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
            // A truncated value is not compared.
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

    /// True for a text without a named type that is not a pointer.
    fn is_plain_text(&self) -> bool {
        let Some(place) = self.place() else {
            return self.value.is_none_or(|value| value.as_str().is_some());
        };
        place.schema.scalar() == Some(Scalar::String)
            && place.field.is_none_or(|field| !field.internal_pointer() && field.go().is_none())
    }

    /// Schema of the field, if the object's kind is known.
    pub(super) fn place(&self) -> Option<Place<'static>> {
        let root = self.context.root;
        let version: GroupVersion = root.str_at(&["apiVersion"]).parse().ok()?;
        let kind = root.str_at(&["kind"]);
        builtin::schema(&version.group, &version.version, kind)?.place(&self.path)
    }
}

/// Bad value null.
pub fn null() -> BadValue {
    BadValue::Text("null".to_owned())
}

/// Bad value of a struct that only the reference has, by its Go field names.
pub fn record(fields: &[(&str, &str)]) -> BadValue {
    let field = |(name, value): &(&str, &str)| match BadValue::named_string(value) {
        BadValue::Text(value) => format!("{name:?}:{value}"),
        _ => String::new(),
    };
    BadValue::Text(format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(",")))
}
