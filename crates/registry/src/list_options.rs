//! `ListOptions` of a list, watch or deletecollection, decoded from the query once, for the authorizer and the
//! endpoint.

use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::GroupKind;
use kevel_api::quote::quote;
use kevel_api::selector::{field::FieldSelector, label::LabelSelector};
use kevel_api::status::StatusError;
use kevel_store::Revision;

use crate::query::first;

/// `ListOptions` of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `labelSelector`
    pub labels: LabelSelector,
    /// `fieldSelector`
    pub fields: FieldSelector,
    /// `watch`
    pub watch: bool,
    /// `limit`; 0 for none.
    pub limit: i64,
    /// `timeoutSeconds`
    pub timeout_seconds: Option<i64>,
    /// `resourceVersion`
    pub resource_version: String,
    /// `resourceVersionMatch`
    pub resource_version_match: String,
    /// `continue`
    pub continue_token: String,
    /// `sendInitialEvents`
    pub send_initial_events: Option<bool>,
    /// `allowWatchBookmarks`
    pub allow_watch_bookmarks: bool,
}

impl ListOptions {
    /// Decodes the parameters; the first of several with a name counts. The error is shown to the client.
    pub fn decode(query: &[(String, String)]) -> Result<Self, String> {
        let text = |name: &str| first(query, name).unwrap_or_default();
        let number = |name: &str| first(query, name).map(parse_int).transpose();
        // In the reference's order, which decides which error comes first.
        let timeout_seconds = number("timeoutSeconds")?;
        let limit = number("limit")?.unwrap_or_default();
        let labels: LabelSelector =
            text("labelSelector").parse().map_err(|error| format!("{error}"))?;
        let fields: FieldSelector =
            text("fieldSelector").parse().map_err(|error| format!("{error}"))?;
        Ok(ListOptions {
            labels,
            fields,
            watch: watch(query),
            limit,
            timeout_seconds,
            resource_version: text("resourceVersion").to_owned(),
            resource_version_match: text("resourceVersionMatch").to_owned(),
            continue_token: text("continue").to_owned(),
            send_initial_events: first(query, "sendInitialEvents").map(truthy),
            allow_watch_bookmarks: first(query, "allowWatchBookmarks").is_some_and(truthy),
        })
    }

    /// Validates the combination of options (upstream: `ValidateListOptions`).
    /// `watch_list`: a watch may ask for the state that it begins with.
    pub fn validate(&self, watch_list: bool) -> Result<(), StatusError> {
        let errors = if self.watch { self.check_watch(watch_list) } else { self.check_list() };
        match errors.is_empty() {
            true => Ok(()),
            false => {
                let kind = GroupKind::new("meta.k8s.io", "ListOptions");
                Err(StatusError::invalid(&kind, "", errors))
            }
        }
    }

    fn check_list(&self) -> Vec<FieldError> {
        let path = Path::new("resourceVersionMatch");
        let matching = self.resource_version_match.as_str();
        let mut errors = Vec::new();
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(&path, why));
            }
            errors.extend(self.check_continue(&path));
            if !matches!(matching, EXACT | NOT_OLDER_THAN) {
                let known = [EXACT, NOT_OLDER_THAN, ""];
                errors.push(FieldError::not_supported(&path, matching, known));
            }
            if (matching, self.resource_version.as_str()) == (EXACT, "0") {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(&path, why));
            }
        }
        if self.send_initial_events.is_some() {
            let why = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden(&Path::new("sendInitialEvents"), why));
        }
        errors
    }

    fn check_watch(&self, watch_list: bool) -> Vec<FieldError> {
        let path = Path::new("resourceVersionMatch");
        let matching = self.resource_version_match.as_str();
        let mut errors = Vec::new();
        if self.send_initial_events.is_some() && matching != NOT_OLDER_THAN {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(&path, why));
        }
        if self.send_initial_events.is_some() && !watch_list {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate \
                       is enabled";
            errors.push(FieldError::forbidden(&Path::new("sendInitialEvents"), why));
        }
        if matching.is_empty() {
            return errors;
        }
        if self.send_initial_events.is_none() {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(&path, why));
        }
        if matching != NOT_OLDER_THAN {
            errors.push(FieldError::not_supported(&path, matching, [NOT_OLDER_THAN]));
        }
        errors.extend(self.check_continue(&path));
        errors
    }

    fn check_continue(&self, path: &Path<'_>) -> Option<FieldError> {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        (!self.continue_token.is_empty()).then(|| FieldError::forbidden(path, why))
    }
}

/// Values of `resourceVersionMatch`.
const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";

/// Whether a query asks for a watch, even if its other options are invalid.
pub fn watch(query: &[(String, String)]) -> bool {
    first(query, "watch").is_some_and(truthy)
}

/// Value of a boolean parameter: true unless it is one of these, also if it is empty.
pub fn truthy(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

/// Parses an integer; the error text is Go's.
pub fn parse_int(text: &str) -> Result<i64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            NegOverflow | PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.ParseInt: parsing {}: {why}", quote(text))
    })
}

/// Parses an integer that is not negative; the error text is Go's.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ => {
            let why = if digits { "value out of range" } else { "invalid syntax" };
            Err(format!("strconv.ParseUint: parsing {}: {why}", quote(text)))
        }
    }
}

/// Parses a resourceVersion; `None` if it is empty. The error text is Go's.
pub fn parse_revision(text: &str) -> Result<Option<Revision>, FieldError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(|number| Some(Revision(number))).map_err(|_| {
        let message = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        FieldError::invalid(&Path::new("resourceVersion"), text, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(query: &str) -> Result<ListOptions, String> {
        ListOptions::decode(&crate::query::pairs(query))
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (query, expected) in [
            ("limit=x", r#"strconv.ParseInt: parsing "x": invalid syntax"#),
            ("limit=", r#"strconv.ParseInt: parsing "": invalid syntax"#),
            (
                "timeoutSeconds=9223372036854775808&limit=x",
                r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#,
            ),
            ("fieldSelector=x", "invalid selector: 'x'; can't understand 'x'"),
        ] {
            assert_eq!(decode(query), Err(expected.to_owned()), "{query}");
        }
    }

    #[test]
    fn not_all_options_go_together() {
        let fine = ["", "watch=1", "resourceVersion=1&resourceVersionMatch=Exact"];
        fine.into_iter().for_each(|query| decode(query).unwrap().validate(true).unwrap());
        for (query, expected) in [
            (
                "sendInitialEvents=",
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
            (
                "resourceVersionMatch=x&continue=y",
                "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless \
                 resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch \
                 is forbidden when continue is provided, resourceVersionMatch: Unsupported value: \
                 \"x\": supported values: \"Exact\", \"NotOlderThan\", \"\"]",
            ),
            (
                "watch=1&resourceVersionMatch=Exact",
                "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
                 sendInitialEvents is provided, resourceVersionMatch: Unsupported value: \"Exact\": \
                 supported values: \"NotOlderThan\"]",
            ),
        ] {
            let error = decode(query).unwrap().validate(true).unwrap_err().to_string();
            let expected = format!("ListOptions.meta.k8s.io \"\" is invalid: {expected}");
            assert_eq!(error, expected, "{query}");
        }
    }

    #[test]
    fn only_two_words_say_no() {
        for (query, expected) in [
            ("", false),
            ("watch=0", false),
            ("watch=FALSE", false),
            ("watch=false&watch=true", false),
            ("watch", true),
            ("watch=", true),
            ("watch=f", true),
            ("watch=no", true),
            ("watch=true;x", false),
        ] {
            assert_eq!(decode(query).unwrap().watch, expected, "{query}");
        }
    }
}
