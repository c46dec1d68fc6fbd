//! Validation of numbers: ranges and `multipleOf`.

use kevel_api::field_error::{BadValue, FieldErrorKind};
use kevel_api::value::Value;

use super::bad_value::float;
use super::dotted_path::DottedPath;
use super::finding::{Finding, Outcome};
use super::node::Node;
use super::open_api::Walk;

/// Validates a number.
pub(crate) fn check(
    node: &Node,
    value: &Value,
    place: &DottedPath<'_>,
    walk: &mut Walk,
    outcome: &mut Outcome,
) {
    let bounds = &node.bounds;
    let (exact, data) = match value {
        Value::Int(int) => (Some(*int), *int as f64),
        Value::Float(float) => (None, *float),
        _ => return,
    };
    let digits = exact.map_or_else(|| positional(data), |int| int.to_string());
    outcome_of_range(node, &digits, "Checked", place, walk, outcome);
    if let Some(factor) = bounds.multiple_of {
        let fits = outcome_of_range(node, &positional(factor), "MultipleOf", place, walk, outcome);
        check_multiple(exact.filter(|_| fits), data, factor, place, walk, outcome);
    }
    let mut limit =
        |limit: Option<f64>, prefix: &str, exclusive: bool, words: [&str; 2], sign: f64| {
            let Some(limit) = limit else { return };
            let fits = outcome_of_range(node, &positional(limit), prefix, place, walk, outcome);
            let (order, shown) = match exact.filter(|_| fits) {
                Some(int) => {
                    let limit = limit as i64;
                    let order = if sign < 0.0 { limit.cmp(&int) } else { int.cmp(&limit) };
                    (Some(order), limit.to_string())
                }
                None => ((sign * data).partial_cmp(&(sign * limit)), float(limit)),
            };
            let beyond = order.is_some_and(|order| order.is_gt() || (exclusive && order.is_eq()));
            if beyond {
                let [inclusive, strict] = words;
                let rule =
                    format!("should be {} {shown}", if exclusive { strict } else { inclusive });
                let value = exact.filter(|_| fits).map_or_else(|| data.into(), BadValue::from);
                walk.add(outcome, || Finding::invalid(place, value, rule));
            }
        };
    let least = ["greater than or equal to", "greater than"];
    let most = ["less than or equal to", "less than"];
    limit(bounds.minimum, "Minimum boundary", bounds.exclusive_minimum, least, -1.0);
    limit(bounds.maximum, "Maximum boundary", bounds.exclusive_maximum, most, 1.0);
}

/// Whether a number is integral, within rounding errors.
pub(crate) fn is_integer(value: f64) -> bool {
    const MOST: f64 = ((1_i64 << 53) - 1) as f64;
    const EPSILON: f64 = 1e-9;
    if !value.is_finite() || value.abs() > MOST {
        return false;
    }
    let whole = value.trunc();
    // Below zero only exact integers count: the reference's rounding is wrong there.
    whole == value || (whole > 0.0 && (value - whole).abs() / (value + whole) < EPSILON)
}

fn check_multiple(
    exact: Option<i64>,
    data: f64,
    factor: f64,
    place: &DottedPath<'_>,
    walk: &mut Walk,
    outcome: &mut Outcome,
) {
    let (value, shown, positive, multiple) = match exact {
        Some(int) => {
            let factor = factor as i64;
            let multiple = factor > 0 && int % factor == 0;
            (BadValue::from(int), factor.to_string(), factor > 0, multiple)
        }
        None => {
            let times = if factor < 1.0 { 1.0 / factor * data } else { data / factor };
            (BadValue::from(data), float(factor), factor > 0.0, is_integer(times))
        }
    };
    if !positive {
        walk.add(outcome, || {
            let why = format!("factor MultipleOf declared for {place} must be positive: {shown}");
            Finding::new(FieldErrorKind::Invalid, place, BadValue::Text(shown), why)
        });
    } else if !multiple {
        let rule = format!("should be a multiple of {shown}");
        walk.add(outcome, || Finding::invalid(place, value, rule));
    }
}

/// Error if a number, in decimal digits, is out of range for the schema's type and format.
fn outcome_of_range(
    node: &Node,
    digits: &str,
    prefix: &str,
    place: &DottedPath<'_>,
    walk: &mut Walk,
    outcome: &mut Outcome,
) -> bool {
    let [kind] = node.types.as_slice() else { return true };
    let format = node.format.as_ref().map_or("", |format| &*format.name);
    let format = match (&**kind, format) {
        ("integer", "int32" | "int64") | ("number", "float" | "double") => format,
        _ => "",
    };
    let fits = match (&**kind, format) {
        ("integer", "int32") => digits.parse::<i32>().is_ok(),
        ("integer", _) => digits.parse::<i64>().is_ok(),
        ("number", "float") => digits.parse::<f32>().is_ok_and(f32::is_finite),
        _ => true,
    };
    if !fits {
        let format = match format {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        walk.add(outcome, || {
            Finding::general(format!("{prefix} value must be of type {kind} {format} in {place}"))
        });
    }
    fits
}

/// Decimal digits, without an exponent.
fn positional(value: f64) -> String {
    value.to_string()
}
