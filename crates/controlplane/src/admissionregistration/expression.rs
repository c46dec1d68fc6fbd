//! Expressions of webhooks and policies, compiled when they are written.
//!
//! The reference knows newer functions in expressions that were stored before than in new ones, so
//! that a server can be replaced by the one of a version ago. All functions of this version were there
//! then: both are the same here.

use std::collections::HashSet;

use kevel_admission::cel::{Compiler, Error, ErrorKind, OptionalVariableDeclarations, Returns};
use kevel_api::field_error::FieldError;
use kevel_api::name;

use crate::validation::Field;

/// How many conditions a webhook or policy may have.
const MAX_MATCH_CONDITIONS: usize = 64;

/// The conditions under which a webhook or policy is asked. They know no `variables`.
pub(super) fn match_conditions(conditions: Field, has_params: bool) {
    if conditions.len() > MAX_MATCH_CONDITIONS {
        conditions.too_many(conditions.len(), MAX_MATCH_CONDITIONS);
    }
    let declarations = in_scope(has_params);
    let mut names = HashSet::new();
    for condition in conditions.items() {
        let (expression, name) = (condition.at("expression"), condition.at("name"));
        match expression.str().trim() {
            "" => expression.required(""),
            text => compile(expression, text, &Compiler::new(), Returns::Bool, declarations),
        }
        if name.must("") {
            name.form(name::is_label_key);
            name.unique(&mut names, name.str());
        }
    }
}

/// Everything that is in scope of most expressions.
pub(super) fn in_scope(has_params: bool) -> OptionalVariableDeclarations {
    OptionalVariableDeclarations { has_params, has_authorizer: true, has_patch_types: false }
}

/// An expression, which errors show as `text`.
pub(super) fn compile(
    field: Field,
    text: &str,
    compiler: &Compiler,
    returns: Returns,
    declarations: OptionalVariableDeclarations,
) {
    if let Err(error) = compiler.compile(text, returns, declarations).program {
        report(field, text, error);
    }
}

/// Says what is wrong with an expression, which is shown as `text`.
pub(super) fn report(field: Field, text: &str, error: Error) {
    match error.kind {
        ErrorKind::Internal => field.add(|| FieldError::internal(&field.path(), error)),
        ErrorKind::Invalid | ErrorKind::OutOfBudget => field.invalid_as(text, error.detail),
    }
}
