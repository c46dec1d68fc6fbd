//! Access to objects for table cells. An absent field reads as its zero value.

use std::ops::Deref;

use kevel_api::selector::label::{LabelSelector, MatchExpression};
use kevel_api::time::MicroTime;
use kevel_api::value::Value;
use kevel_registry::columns::{elapsed, human_duration, parse, since};

/// Cell of an empty value.
pub const NONE: &str = "<none>";
/// Cell of an unset value.
pub const UNSET: &str = "<unset>";
/// Cell of an unknown value.
pub const UNKNOWN: &str = "<unknown>";

/// A value that can be a table cell.
pub trait Cell {
    fn cell(self) -> Value;
}

impl Cell for &str {
    fn cell(self) -> Value {
        self.into()
    }
}

impl Cell for String {
    fn cell(self) -> Value {
        self.as_str().into()
    }
}

impl Cell for bool {
    fn cell(self) -> Value {
        self.into()
    }
}

impl Cell for i64 {
    fn cell(self) -> Value {
        self.into()
    }
}

impl Cell for usize {
    fn cell(self) -> Value {
        Value::Int(self as i64)
    }
}

impl Cell for Value {
    fn cell(self) -> Value {
        self
    }
}

/// An object with the time at which it is printed.
pub struct Shown<'a> {
    object: FieldValue<'a>,
    now: MicroTime,
}

impl<'a> Shown<'a> {
    pub fn new(object: &'a Value, now: MicroTime) -> Self {
        Shown { object: FieldValue(Some(object)), now }
    }

    /// The whole object; null if it is not one.
    pub fn object(&self) -> &'a Value {
        self.object.0.unwrap_or(&Value::Null)
    }

    /// Time at which the object is printed.
    pub fn now(&self) -> MicroTime {
        self.now
    }

    pub fn name(&self) -> &'a str {
        self.text("metadata.name")
    }

    pub fn age(&self) -> String {
        self.since("metadata.creationTimestamp")
    }

    /// Age of the timestamp at a path.
    pub fn since(&self, path: &str) -> String {
        self.ago(self.at(path))
    }

    /// Age of a timestamp.
    pub fn ago(&self, moment: FieldValue<'_>) -> String {
        since(moment.as_text(), self.now)
    }

    /// Duration between two timestamps, or until now if the second is absent.
    pub fn took(&self, from: &str, to: &str) -> String {
        let Some(from) = parse(self.text(from)) else { return String::new() };
        human_duration(elapsed(from, parse(self.text(to)).unwrap_or(self.now)))
    }

    /// True if the object has a deletionTimestamp.
    pub fn is_deleted(&self) -> bool {
        self.at("metadata.deletionTimestamp").is_set()
    }
}

impl<'a> Deref for Shown<'a> {
    type Target = FieldValue<'a>;

    fn deref(&self) -> &FieldValue<'a> {
        &self.object
    }
}

/// Value of a field, or its absence.
#[derive(Clone, Copy)]
pub struct FieldValue<'a>(pub Option<&'a Value>);

impl<'a> FieldValue<'a> {
    /// Value at a path of field names joined by dots.
    pub fn at(self, path: &str) -> FieldValue<'a> {
        let down = |value: &'a Value, key| value.as_map()?.get(key);
        FieldValue(self.0.and_then(|value| path.split('.').try_fold(value, down)))
    }

    pub fn is_set(self) -> bool {
        self.0.is_some_and(|value| !value.is_null())
    }

    pub fn as_text(self) -> &'a str {
        self.0.and_then(Value::as_str).unwrap_or_default()
    }

    pub fn as_int(self) -> i64 {
        self.0.and_then(Value::as_int).unwrap_or(0)
    }

    pub fn text(self, path: &str) -> &'a str {
        self.at(path).as_text()
    }

    /// Text at a path, or `other` if it is empty.
    pub fn text_or(self, path: &str, other: &'a str) -> &'a str {
        let text = self.text(path);
        if text.is_empty() { other } else { text }
    }

    /// Text at a path, even an empty one, or `other` if it is not set.
    pub fn set_or(self, path: &str, other: &'a str) -> &'a str {
        let part = self.at(path);
        if part.is_set() { part.as_text() } else { other }
    }

    pub fn int(self, path: &str) -> i64 {
        self.at(path).as_int()
    }

    pub fn flag(self, path: &str) -> bool {
        self.flag_or(path, false)
    }

    pub fn flag_or(self, path: &str, other: bool) -> bool {
        self.at(path).0.and_then(Value::as_bool).unwrap_or(other)
    }

    /// Number, text or quantity as it is written.
    pub fn written(self) -> Option<String> {
        match self.0? {
            Value::Int(int) => Some(int.to_string()),
            Value::String(text) => Some(text.to_string()),
            _ => None,
        }
    }

    /// Length of a list or map.
    pub fn count(self, path: &str) -> i64 {
        match self.at(path).0 {
            Some(Value::List(list)) => list.len() as i64,
            Some(Value::Map(map)) => map.len() as i64,
            _ => 0,
        }
    }

    /// Items of a list.
    pub fn each(
        self,
        path: &str,
    ) -> impl DoubleEndedIterator<Item = FieldValue<'a>> + ExactSizeIterator {
        let list = self.at(path).0.and_then(Value::as_list).unwrap_or_default();
        list.iter().map(|item| FieldValue(Some(item)))
    }

    /// Entries of a map, sorted by key.
    pub fn entries(self, path: &str) -> impl Iterator<Item = (&'a str, FieldValue<'a>)> {
        let map = self.at(path).0.and_then(Value::as_map);
        map.into_iter()
            .flat_map(|map| map.iter().map(|(key, value)| (key, FieldValue(Some(value)))))
    }

    /// Texts of a list, or of a field of its items, joined.
    pub fn joined(self, path: &str, of_each: &str, separator: &str) -> String {
        let texts = self.each(path).map(|item| match of_each {
            "" => item.as_text(),
            of_each => item.text(of_each),
        });
        texts.collect::<Vec<_>>().join(separator)
    }

    /// First condition of a type.
    pub fn condition(self, ty: &str) -> Option<FieldValue<'a>> {
        self.each("status.conditions").find(|condition| condition.text("type") == ty)
    }

    /// True if the status of the first condition of a type is True.
    pub fn holds(self, ty: &str) -> bool {
        self.condition(ty).is_some_and(|condition| condition.text("status") == "True")
    }

    pub fn annotation(self, name: &str) -> FieldValue<'a> {
        let annotations = self.at("metadata.annotations").0.and_then(Value::as_map);
        FieldValue(annotations.and_then(|annotations| annotations.get(name)))
    }

    /// Labels as `a=b,c=d`.
    pub fn labels(self, path: &str) -> String {
        let labels = self.entries(path).map(|(key, value)| format!("{key}={}", value.as_text()));
        some_or_none(labels.collect::<Vec<_>>().join(","))
    }

    /// Label selector in its string form.
    pub fn selector(self, path: &str) -> String {
        self.try_selector(path).map_or_else(|| "<error>".into(), some_or_none)
    }

    /// Label selector in its string form; `None` if it is invalid.
    pub fn try_selector(self, path: &str) -> Option<String> {
        let selector = self.at(path);
        let labels = selector.entries("matchLabels").map(|(key, value)| (key, value.as_text()));
        let expressions = selector.each("matchExpressions").map(|expression| MatchExpression {
            key: expression.text("key"),
            operator: expression.text("operator"),
            values: expression.each("values").map(FieldValue::as_text).collect::<Vec<_>>(),
        });
        Some(LabelSelector::from_parts(labels, expressions).ok()?.to_string())
    }

    /// Names and images of a pod template's containers.
    pub fn containers(self, template: &str) -> (String, String) {
        let spec = self.at(template).at("spec");
        (spec.joined("containers", "name", ","), spec.joined("containers", "image", ","))
    }
}

/// The text, or [`NONE`] if it is empty.
pub fn some_or_none(text: String) -> String {
    if text.is_empty() { NONE.into() } else { text }
}

/// First items of a list, with the number of all.
pub struct Few {
    pub shown: Vec<String>,
    pub count: usize,
}

impl Few {
    /// Maximum number of items shown.
    pub const MAX: usize = 3;

    pub fn of(all: impl IntoIterator<Item = String>) -> Self {
        let mut all = all.into_iter();
        let shown: Vec<String> = all.by_ref().take(Self::MAX).collect();
        Few { count: shown.len() + all.count(), shown }
    }

    /// `a,b,c + 2 more...`, or `none` if the list is empty.
    pub fn or(self, none: &str) -> String {
        let shown = self.shown.join(",");
        match self.count.saturating_sub(Self::MAX) {
            0 if shown.is_empty() => none.into(),
            0 => shown,
            more => format!("{shown} + {more} more..."),
        }
    }
}
