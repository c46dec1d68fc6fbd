//! Validation of `metav1.Condition` lists.

use std::collections::HashSet;

use kevel_api::field_error::BadValue;

use super::Field;

const STATUSES: &[&str] = &["False", "True", "Unknown"];
const MAX_REASON: usize = 1 << 10;
const MAX_MESSAGE: usize = 32 << 10;

const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
     alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. \
     'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex \
     used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

impl Field<'_, '_> {
    /// Checks a list of conditions with unique types.
    pub fn conditions(&self) {
        let mut seen = HashSet::new();
        for condition in self.items() {
            let ty = condition.at("type");
            ty.unique(&mut seen, ty.str());
            ty.label_name();
            let status = condition.at("status");
            if !STATUSES.contains(&status.str()) {
                status.unsupported_as(BadValue::named_string(status.str()), STATUSES);
            }
            let generation = condition.at("observedGeneration");
            if generation.int() < 0 {
                generation.invalid("must be greater than or equal to zero");
            }
            condition.at("lastTransitionTime").must("");
            let reason = condition.at("reason");
            if reason.must("") {
                if !is_reason(reason.str()) {
                    reason.invalid(REASON);
                }
                if reason.len() > MAX_REASON {
                    reason.too_long(MAX_REASON);
                }
            }
            let message = condition.at("message");
            if message.len() > MAX_MESSAGE {
                message.too_long(MAX_MESSAGE);
            }
        }
    }
}

fn is_reason(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"_,:".contains(&byte);
    let last = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && text.bytes().all(inside)
        && text.bytes().last().is_some_and(last)
}

#[cfg(test)]
mod tests {
    use super::is_reason;

    #[test]
    fn reasons() {
        for (text, good) in
            [("A", true), ("A_", true), ("A,B:C", true), ("", false), ("_", false), ("A:", false)]
        {
            assert_eq!(is_reason(text), good, "{text}");
        }
    }
}
