//! Quantities of resources.

use std::cmp::Ordering;
use std::fmt;

use kevel_api::quantity::{Format, Quantity};

use super::{Extension, Row, row};
use crate::error::Error;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    row("quantity", "string_to_quantity", "(string) -> kubernetes.Quantity", |args| match args {
        [Value::String(text)] => {
            text.parse::<Quantity>().map(value).map_err(|error| Error::new(error.to_string()))
        }
        _ => Err(Error::no_such_overload()),
    }),
    row("isQuantity", "is_quantity_string", "(string) -> bool", |args| match args {
        [Value::String(text)] => Ok(Value::Bool(text.parse::<Quantity>().is_ok())),
        _ => Err(Error::no_such_overload()),
    }),
    row("sign", "quantity_sign", "(kubernetes.Quantity) -> int", |args| {
        Ok(Value::Int(i64::from(receiver(args)?.signum())))
    }),
    row("isGreaterThan", "quantity_is_greater_than", COMPARE_BOOL, |args| {
        Ok(Value::Bool(order(args)?.is_gt()))
    }),
    row("isLessThan", "quantity_is_less_than", COMPARE_BOOL, |args| {
        Ok(Value::Bool(order(args)?.is_lt()))
    }),
    row(
        "compareTo",
        "quantity_compare_to",
        "kubernetes.Quantity.(kubernetes.Quantity) -> int",
        |args| Ok(Value::Int(order(args)? as i64)),
    ),
    row("asApproximateFloat", "quantity_get_float", "kubernetes.Quantity.() -> double", |args| {
        Ok(Value::Double(approximate(receiver(args)?)))
    }),
    row("asInteger", "quantity_get_int", "kubernetes.Quantity.() -> int", |args| {
        let value = whole(receiver(args)?);
        value.map(Value::Int).ok_or_else(|| Error::new("cannot convert value to integer"))
    }),
    row("isInteger", "quantity_is_integer", "kubernetes.Quantity.() -> bool", |args| {
        Ok(Value::Bool(whole(receiver(args)?).is_some()))
    }),
    row("add", "quantity_add", SUM, |args| {
        let (mut sum, other) = (receiver(args)?, operand(args)?);
        sum += other;
        Ok(value(sum))
    }),
    row("add", "quantity_add_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity", |args| {
        let (mut sum, other) = (receiver(args)?, operand(args)?);
        sum += other;
        Ok(value(sum))
    }),
    row("sub", "quantity_sub", SUM, |args| {
        let (mut difference, other) = (receiver(args)?, operand(args)?);
        difference -= other;
        Ok(value(difference))
    }),
    row("sub", "quantity_sub_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity", |args| {
        let (mut difference, other) = (receiver(args)?, operand(args)?);
        difference -= other;
        Ok(value(difference))
    }),
];

const COMPARE_BOOL: &str = "kubernetes.Quantity.(kubernetes.Quantity) -> bool";
const SUM: &str = "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity";

/// A quantity.
#[derive(Clone, Copy, Debug)]
pub struct QuantityValue {
    pub quantity: Quantity,
}

impl fmt::Display for QuantityValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quantity.fmt(f)
    }
}

fn value<'a>(quantity: Quantity) -> Value<'a> {
    Value::Extension(Extension::Quantity(QuantityValue { quantity }))
}

fn receiver(args: &[Value<'_>]) -> Result<Quantity, Error> {
    match args.first() {
        Some(Value::Extension(Extension::Quantity(value))) => Ok(value.quantity),
        _ => Err(Error::no_such_overload()),
    }
}

fn operand(args: &[Value<'_>]) -> Result<Quantity, Error> {
    match args.get(1) {
        Some(Value::Extension(Extension::Quantity(value))) => Ok(value.quantity),
        Some(Value::Int(value)) => Ok(Quantity::new(*value, Format::DecimalExponent)),
        _ => Err(Error::no_such_overload()),
    }
}

fn order(args: &[Value<'_>]) -> Result<Ordering, Error> {
    match args {
        [_, Value::Extension(_)] => Ok(receiver(args)?.cmp(&operand(args)?)),
        _ => Err(Error::no_such_overload()),
    }
}

/// The whole number that it is, if it is one in range.
fn whole(quantity: Quantity) -> Option<i64> {
    let value = quantity.value();
    (Quantity::new(value, quantity.format()) == quantity).then_some(value)
}

fn approximate(quantity: Quantity) -> f64 {
    if let Some(value) = whole(quantity) {
        return value as f64;
    }
    for scale in [-3, -6, -9, 3, 6, 9, 12, 15, 18] {
        let exact = Quantity::from_scaled(quantity.scaled_value(scale), scale);
        if exact == quantity {
            return quantity.scaled_value(scale) as f64 * 10_f64.powi(scale);
        }
    }
    quantity.scaled_value(-9) as f64 * 1e-9
}
