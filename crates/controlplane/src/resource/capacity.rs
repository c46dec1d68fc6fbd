//! Validation of device capacities and their request policies.

use std::collections::HashSet;

use kevel_api::field_error::FieldError;
use kevel_api::quantity::Quantity;

use crate::validation::Field;

/// Maximum number of `validValues`.
const MAX_OPTIONS: usize = 10;
/// Messages about fields that another field requires.
const NEEDED_BY_VALUES: &str = "required when validValues is defined";
const NEEDED_BY_RANGE: &str = "required when validRange is defined";

/// Checks a capacity; `shared` is true if the device allows multiple allocations.
pub(super) fn check(capacity: Field, shared: bool) {
    let policy = capacity.at("requestPolicy");
    if policy.is_absent() {
        return;
    }
    if !shared {
        return policy.forbidden("allowMultipleAllocations must be true");
    }
    let all = amount(capacity.at("value"));
    let (values, range) = (policy.at("validValues"), policy.at("validRange"));
    let default = policy.at("default");
    match (!values.is_empty(), range.is_set(), default.quantity()) {
        (true, true, _) => policy.forbidden(
            "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" \
             at the same time",
        ),
        (true, false, None) => default.required(NEEDED_BY_VALUES),
        (true, false, Some(default)) => one_of(values, default, all),
        (false, true, None) => default.required(NEEDED_BY_RANGE),
        (false, true, Some(default)) => between(range, default, all),
        (false, false, _) => {}
    }
}

/// Amount of a field; zero if it is absent.
fn amount(field: Field) -> Quantity {
    field.quantity().unwrap_or_default()
}

/// Checks `validValues`: sorted, without duplicates, and with `default` among them.
fn one_of(values: Field, default: Quantity, all: Quantity) {
    let amounts: Vec<Quantity> = values.items().map(amount).collect();
    for (index, pair) in amounts.windows(2).enumerate() {
        if pair[0] > pair[1] {
            let why = "values must be sorted in ascending order";
            values.index(index + 1).invalid_as(pair[1].to_string(), why);
        }
    }
    let mut has_default = false;
    if values.at_most(MAX_OPTIONS) {
        for (value, amount) in values.items().zip(&amounts) {
            if *amount > all {
                let why = format!("option is larger than capacity value: {all}");
                value.invalid_as(value.quantity_text(), why);
            }
            has_default |= *amount == default;
        }
        let mut seen = HashSet::new();
        for (value, amount) in values.items().zip(&amounts) {
            if !seen.insert(amount.value()) {
                value.duplicate_as(amount.value().to_string());
            }
        }
    }
    if !has_default {
        let why = "default value is not valid according to the requestPolicy";
        values.invalid_as(default.to_string(), why);
    }
}

/// Checks `validRange`, which must contain `default`.
fn between(range: Field, default: Quantity, all: Quantity) {
    let (min, max, step) = (range.at("min"), range.at("max"), range.at("step"));
    let Some(least) = min.quantity() else { return min.required(NEEDED_BY_RANGE) };
    if least > all {
        min.invalid_as(least.to_string(), format!("min is larger than capacity value: {all}"));
    }
    if default < least {
        min.invalid_as(default.to_string(), format!("default is less than min: {least}"));
    }
    if let Some(most) = max.quantity() {
        if least > most {
            max.invalid_as(least.to_string(), format!("min is larger than max: {most}"));
        }
        if most > all {
            max.invalid_as(most.to_string(), format!("max is larger than capacity value: {all}"));
        }
        if default > most {
            max.invalid_as(default.to_string(), format!("default is more than max: {most}"));
        }
    }
    if let Some(size) = step.quantity() {
        let mut first = least;
        first += size;
        if first > all {
            let why = format!("one step {first} is larger than capacity value: {all}");
            step.invalid_as(size.to_string(), why);
        }
        for amount in [Some(default), max.quantity()].into_iter().flatten() {
            whole_steps(step, amount, least, size);
        }
    }
}

/// Checks that an amount is a multiple of the step from the minimum.
fn whole_steps(step: Field, amount: Quantity, least: Quantity, size: Quantity) {
    let from_least = amount.value().wrapping_sub(least.value());
    match size.value() {
        // The reference panics here; an internal error instead.
        0 => step.push(FieldError::internal(&step.path(), "integer divide by zero")),
        step_size if from_least.wrapping_rem(step_size) == 0 => {}
        _ => {
            let why = format!("value is not a multiple of a given step ({size}) from ({least})");
            step.invalid_as(amount.to_string(), why);
        }
    }
}
