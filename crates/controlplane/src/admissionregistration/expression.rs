//! Validation of CEL expressions in webhooks and policies: they are compiled when written.
//!
//! The reference allows newer functions in stored expressions than in new ones, so that a cluster can go back one
//! version. All functions of this version existed in the one before, so that both environments are the same here.

use std::collections::HashSet;

use kevel_admission::cel::{Compiler, Error, ErrorKind, OptionalVariableDeclarations, Returns};
use kevel_api::field_error::FieldError;
use kevel_api::name;

use crate::validation::Field;

/// Limit on the match conditions of a webhook or policy.
const MAX_MATCH_CONDITIONS: usize = 64;

/// Checks `matchConditions` of a webhook or policy, which cannot use `variables`.
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

/// Declarations that most expressions can use.
pub(super) fn in_scope(has_params: bool) -> OptionalVariableDeclarations {
    OptionalVariableDeclarations { has_params, has_authorizer: true, has_patch_types: false }
}

/// Compiles an expression; errors show it as `text`.
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

/// Reports the error of an expression; errors show it as `text`.
pub(super) fn report(field: Field, text: &str, error: Error) {
    match error.kind {
        ErrorKind::Internal => field.add(|| FieldError::internal(&field.path(), error)),
        ErrorKind::Invalid | ErrorKind::OutOfBudget => field.invalid_as(text, error.detail),
    }
}
