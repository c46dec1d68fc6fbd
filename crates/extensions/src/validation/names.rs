//! Validation of `names`.

use kevel_api::field_error::{FieldError, Path};

use super::dns_label_problem;
use crate::schema::MAX_ERRORS;
use crate::schema::props::Props;

/// Errors of the names that are set.
pub(crate) fn check(names: Props<'_>, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["plural", "singular"] {
        let said = names.text(field);
        if let Some(why) = dns_label_problem(said).filter(|_| !said.is_empty()) {
            errors.push(FieldError::invalid(&path.child(field), said, why));
        }
    }
    for field in ["kind", "listKind"] {
        let said = names.text(field);
        if let Some(why) = dns_label_problem(&said.to_lowercase()).filter(|_| !said.is_empty()) {
            let why = format!("may have mixed case, but should otherwise match: {why}");
            errors.push(FieldError::invalid(&path.child(field), said, why));
        }
    }
    errors.extend(check_list(names, "shortNames", path));
    let (kind, list_kind) = (names.text("kind"), names.text("listKind"));
    if !kind.is_empty() && kind == list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), list_kind, why));
    }
    errors.extend(check_list(names, "categories", path));
    errors
}

fn check_list(names: Props<'_>, field: &str, path: &Path<'_>) -> Vec<FieldError> {
    let path = path.child(field);
    let wrong = names.texts(field).enumerate().filter_map(|(index, said)| {
        let why = dns_label_problem(said)?;
        Some(FieldError::invalid(&path.index(index), said, why))
    });
    wrong.take(MAX_ERRORS).collect()
}
