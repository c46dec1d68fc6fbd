//! Field errors: paths to fields and the errors about them (upstream: field.Error, field.Path).

mod bad_value;
pub(crate) mod cut;
mod errors;
mod path;

pub use bad_value::BadValue;
pub use cut::{cut, print_up_to};
pub use errors::{FieldErrors, MAX_ERROR_BYTES, MAX_ERRORS};
pub use path::Path;

use crate::quote::quote;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use cut::cut_owned;

/// Limit on the bytes of a value, and of a detail, in an error; the rest is cut. The reference quotes values whole.
/// Real values are far smaller: the largest quoted ones are Pod templates that may not change.
pub const MAX_VALUE_BYTES: usize = 256 << 10;
/// Limit on the bytes of a path in an error: more than the longest path of fields, because keys of maps are part of
/// paths too. The reference has no limit.
pub const MAX_PATH_BYTES: usize = 4 << 10;

/// One error about one field.
///
/// ```
/// use kevel_api::field_error::{FieldError, Path};
/// let spec = Path::new("spec");
/// let error = FieldError::invalid(&spec.child("replicas"), -1, "must not be negative");
/// assert_eq!(error.to_string(), "spec.replicas: Invalid value: -1: must not be negative");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Type of the error.
    pub kind: FieldErrorKind,
    /// Path to the field, printed.
    pub field: String,
    /// The wrong value.
    pub bad_value: BadValue,
    /// Detail; may be empty.
    pub detail: Cow<'static, str>,
}

/// Type of a field error (upstream: field.ErrorType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// An object that the value refers to does not exist.
    NotFound,
    /// The value is missing.
    Required,
    /// The value must be unique and is not.
    Duplicate,
    /// The value is malformed.
    Invalid,
    /// The value is not one of a list.
    NotSupported,
    /// The value is well-formed but not permitted here.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// The text is too short.
    TooShort,
    /// The list has too many items.
    TooMany,
    /// The list has too few items.
    TooFew,
    /// The server failed to check the value.
    Internal,
    /// The value is not of the field's type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// Reason of the cause in a [`crate::status::Status`].
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// Words that begin the error's body.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooShort => "Too short",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }

    const fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal
        )
    }
}

impl FieldError {
    /// Error of any type.
    pub fn new(
        kind: FieldErrorKind,
        path: &Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        let field = print_up_to(MAX_PATH_BYTES, path);
        let detail = match detail.into() {
            Cow::Owned(detail) => Cow::Owned(cut_owned(MAX_VALUE_BYTES, detail)),
            detail => detail,
        };
        FieldError { kind, field, bad_value: value.into().cut(), detail }
    }

    /// Length of the error's text.
    pub fn size(&self) -> usize {
        self.field.len() + self.bad_value.size() + self.detail.len()
    }

    /// Error: the value does not have the field's type.
    pub fn type_invalid(
        path: &Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, path, value, detail)
    }

    /// Error: an object that the value refers to does not exist.
    pub fn not_found(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(FieldErrorKind::NotFound, path, value, "")
    }

    /// Error: the value is missing.
    pub fn required(path: &Path<'_>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(FieldErrorKind::Required, path, BadValue::Omitted, detail)
    }

    /// Error: the value must be unique and is not.
    pub fn duplicate(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, value, "")
    }

    /// Error: the value is malformed.
    pub fn invalid(
        path: &Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(FieldErrorKind::Invalid, path, value, detail)
    }

    /// Error: the value is not one of the supported ones, which are listed in the given order.
    pub fn not_supported<S: AsRef<str>>(
        path: &Path<'_>,
        value: impl Into<BadValue>,
        supported: impl IntoIterator<Item = S>,
    ) -> Self {
        let quoted: Vec<String> = supported.into_iter().map(|s| quote(s.as_ref())).collect();
        let detail = match quoted.as_slice() {
            [] => String::new(),
            quoted => format!("supported values: {}", quoted.join(", ")),
        };
        Self::new(FieldErrorKind::NotSupported, path, value, detail)
    }

    /// Error: the value is well-formed but not permitted here.
    pub fn forbidden(path: &Path<'_>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, BadValue::Omitted, detail)
    }

    /// Error: the text has more than `max` bytes.
    pub fn too_long(path: &Path<'_>, max: usize) -> Self {
        let detail = format!("may not be more than {}", count(max, "byte"));
        Self::new(FieldErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// Error: the text has more than `max` characters.
    pub fn too_long_characters(path: &Path<'_>, max: usize) -> Self {
        let detail = format!("may not be more than {}", count(max, "character"));
        Self::new(FieldErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// Error: the text has less than `min` characters.
    pub fn too_short(path: &Path<'_>, min: usize) -> Self {
        let detail = format!("must be at least {}", count(min, "character"));
        Self::new(FieldErrorKind::TooShort, path, BadValue::Omitted, detail)
    }

    /// Error: the list has more than `max` items; the message has the actual number, if it is known.
    pub fn too_many(path: &Path<'_>, actual: Option<usize>, max: usize) -> Self {
        let detail = format!("must have at most {}", count(max, "item"));
        let value = actual.map_or(BadValue::Omitted, BadValue::from);
        Self::new(FieldErrorKind::TooMany, path, value, detail)
    }

    /// Error: the list has less than `min` items.
    pub fn too_few(path: &Path<'_>, actual: usize, min: usize) -> Self {
        let detail = format!("must have at least {}", count(min, "item"));
        Self::new(FieldErrorKind::TooFew, path, actual, detail)
    }

    /// Error: the server failed to check the value.
    pub fn internal(path: &Path<'_>, error: impl fmt::Display) -> Self {
        Self::new(FieldErrorKind::Internal, path, BadValue::Omitted, error.to_string())
    }

    /// Message without the field's path.
    pub fn body(&self) -> String {
        let mut out = self.kind.words().to_owned();
        let mut add = |part: &str| {
            out.push_str(": ");
            out.push_str(part);
        };
        match &self.bad_value {
            _ if !self.kind.shows_value() => {}
            BadValue::Omitted => {}
            BadValue::String(s) => add(&quote(s)),
            BadValue::Text(text) => add(text),
        }
        if !self.detail.is_empty() {
            add(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// Message for several errors: one stands alone, more are listed in brackets, without duplicates. `None` without
/// errors. Errors beyond [`MAX_ERRORS`] and [`MAX_ERROR_BYTES`] are counted, as in [`FieldErrors`].
pub fn aggregate<E: fmt::Display>(errors: impl IntoIterator<Item = E>) -> Option<String> {
    aggregate_more(errors, 0)
}

/// Message for several errors and `untold` more, which are only counted.
pub(crate) fn aggregate_more<E: fmt::Display>(
    errors: impl IntoIterator<Item = E>,
    mut untold: usize,
) -> Option<String> {
    let mut seen = HashSet::new();
    let mut messages: Vec<String> = Vec::new();
    let mut bytes = 0;
    for error in errors {
        if messages.len() >= MAX_ERRORS || bytes >= MAX_ERROR_BYTES {
            untold += 1;
            continue;
        }
        let message = print_up_to(MAX_ERROR_BYTES, error);
        if seen.insert(message.clone()) {
            bytes += message.len();
            messages.push(message);
        }
    }
    messages.extend(more_errors(untold));
    match messages.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// Message that counts omitted errors.
pub(crate) fn more_errors(untold: usize) -> Option<String> {
    (untold > 0).then(|| count(untold, "more error"))
}

fn count(n: usize, unit: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_print_as_the_reference() {
        let spec = Path::new("spec");
        let names = spec.child("names");
        let path = names.index(2);
        for (error, printed) in [
            (FieldError::required(&path, ""), "Required value"),
            (FieldError::required(&path, "say it"), "Required value: say it"),
            (FieldError::invalid(&path, "a\"b", "no"), r#"Invalid value: "a\"b": no"#),
            (FieldError::invalid(&path, "", ""), r#"Invalid value: """#),
            (
                FieldError::invalid(&path, BadValue::Text(String::new()), "no"),
                "Invalid value: : no",
            ),
            (FieldError::invalid(&path, BadValue::Omitted, "no"), "Invalid value: no"),
            (FieldError::invalid(&path, 7_i64, "no"), "Invalid value: 7: no"),
            (FieldError::invalid(&path, 1.5, "no"), "Invalid value: 1.5: no"),
            (FieldError::invalid(&path, 1e21, "no"), "Invalid value: 1e+21: no"),
            (FieldError::invalid(&path, 1e5, "no"), "Invalid value: 100000: no"),
            (FieldError::invalid(&path, 1234567.5, "no"), "Invalid value: 1.2345675e+06: no"),
            (FieldError::invalid(&path, 0.00001, "no"), "Invalid value: 1e-05: no"),
            (FieldError::invalid(&path, true, "no"), "Invalid value: true: no"),
            (
                FieldError::invalid(&path, BadValue::strings(["a", "<"]), "no"),
                r#"Invalid value: ["a","\u003c"]: no"#,
            ),
            (
                FieldError::invalid(&path, BadValue::named_string("<"), "no"),
                r#"Invalid value: "\u003c": no"#,
            ),
            (FieldError::type_invalid(&path, "x", "no"), r#"Invalid value: "x": no"#),
            (FieldError::not_found(&path, "x"), r#"Not found: "x""#),
            (FieldError::duplicate(&path, "x"), r#"Duplicate value: "x""#),
            (FieldError::forbidden(&path, "no"), "Forbidden: no"),
            (
                FieldError::not_supported(&path, "x", ["A", "B"]),
                r#"Unsupported value: "x": supported values: "A", "B""#,
            ),
            (FieldError::not_supported(&path, "x", [""; 0]), r#"Unsupported value: "x""#),
            (FieldError::too_long(&path, 1), "Too long: may not be more than 1 byte"),
            (FieldError::too_long(&path, 63), "Too long: may not be more than 63 bytes"),
            (
                FieldError::too_long_characters(&path, 2),
                "Too long: may not be more than 2 characters",
            ),
            (FieldError::too_short(&path, 1), "Too short: must be at least 1 character"),
            (FieldError::too_many(&path, Some(3), 1), "Too many: 3: must have at most 1 item"),
            (FieldError::too_many(&path, None, 2), "Too many: must have at most 2 items"),
            (FieldError::too_few(&path, 0, 1), "Too few: 0: must have at least 1 item"),
            (FieldError::internal(&path, "boom"), "Internal error: boom"),
        ] {
            assert_eq!(error.to_string(), format!("spec.names[2]: {printed}"));
        }
    }

    #[test]
    fn aggregates_list_each_message_once() {
        let (a, b) = (Path::new("a"), Path::new("b"));
        let a = FieldError::required(&a, "");
        let b = FieldError::required(&b, "");
        assert_eq!(aggregate::<FieldError>([]), None);
        assert_eq!(aggregate([&a, &a]).as_deref(), Some("a: Required value"));
        assert_eq!(
            aggregate([&a, &b, &a]).as_deref(),
            Some("[a: Required value, b: Required value]")
        );
    }
}
