//! Quantity library (`quantity('1Gi')`).

use std::cmp::Ordering;
use std::fmt;

use kevel_api::quantity::{Format, ParseQuantityError, Quantity};

use super::{Extension, Row, row};
use crate::error::Error;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    row("quantity", "string_to_quantity", "(string) -> kubernetes.Quantity", |args| match args {
        [Value::String(text)] => QuantityValue::parse(text).map(value),
        _ => Err(Error::no_such_overload()),
    }),
    row("isQuantity", "is_quantity_string", "(string) -> bool", |args| match args {
        [Value::String(text)] => Ok(Value::Bool(text.parse::<Quantity>().is_ok())),
        _ => Err(Error::no_such_overload()),
    }),
    row("sign", "quantity_sign", "(kubernetes.Quantity) -> int", |args| {
        Ok(Value::Int(i64::from(receiver(args)?.quantity.signum())))
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
        Ok(Value::Double(receiver(args)?.approximate()))
    }),
    row("asInteger", "quantity_get_int", "kubernetes.Quantity.() -> int", |args| {
        let value = receiver(args)?.amount.and_then(Amount::whole);
        value.map(Value::Int).ok_or_else(|| Error::new("cannot convert value to integer"))
    }),
    row("isInteger", "quantity_is_integer", "kubernetes.Quantity.() -> bool", |args| {
        Ok(Value::Bool(receiver(args)?.amount.and_then(Amount::whole).is_some()))
    }),
    row("add", "quantity_add", SUM, add),
    row("add", "quantity_add_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity", add),
    row("sub", "quantity_sub", SUM, subtract),
    row("sub", "quantity_sub_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity", subtract),
];

const COMPARE_BOOL: &str = "kubernetes.Quantity.(kubernetes.Quantity) -> bool";
const SUM: &str = "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity";

/// A quantity.
#[derive(Clone, Copy, Debug)]
pub struct QuantityValue {
    pub quantity: Quantity,
    /// Amount as the reference stores it, if it fits an [`Amount`].
    amount: Option<Amount>,
}

/// Integer times a power of ten. A quantity that the reference does not store in this form is not an integer to it,
/// even if its value is one.
#[derive(Clone, Copy, Debug)]
struct Amount {
    value: i64,
    scale: i32,
}

impl fmt::Display for QuantityValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quantity.fmt(f)
    }
}

impl Amount {
    fn parse(text: &str) -> Option<Amount> {
        const DECIMAL: &str = "num kMGTPE";
        const BINARY: &str = "KMGTPE";
        const MOST_DIGITS: usize = 18;
        let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
            Some(unsigned) => (text.starts_with('-'), unsigned),
            None => (false, text),
        };
        let len = unsigned.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, suffix) = unsigned.split_at(len);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole = whole.trim_start_matches('0');
        let digits = whole.len().max(1) + fraction.len();
        let value: i64 = format!("0{whole}{fraction}").parse().ok()?;
        let value = if negative { -value } else { value };
        if let Some(letter) = suffix.strip_suffix('i') {
            let power = BINARY.find(letter)? + 1;
            let room = 14_usize.checked_sub(whole.len().max(1) + power * 3);
            let value = value.checked_mul(1 << (10 * power));
            return (fraction.is_empty() && room.is_some())
                .then(|| value.map(|value| Amount { value, scale: 0 }))
                .flatten();
        }
        let exponent = match suffix.strip_prefix(['e', 'E']).filter(|rest| !rest.is_empty()) {
            Some(exponent) => exponent.parse().ok()?,
            None if suffix.is_empty() => 0,
            None => DECIMAL.find(suffix)? as i32 * 3 - 9,
        };
        let scale = exponent - fraction.len() as i32;
        (digits <= MOST_DIGITS && scale >= -9).then_some(Amount { value, scale })
    }

    fn plus(self, other: Amount) -> Option<Amount> {
        let scale = match (self.value, other.value) {
            (_, 0) => return Some(self),
            (0, _) => return Some(other),
            _ => self.scale.min(other.scale),
        };
        let scaled = |amount: Amount| {
            let factor = 10_i64.checked_pow((amount.scale - scale) as u32)?;
            amount.value.checked_mul(factor)
        };
        Some(Amount { value: scaled(self)?.checked_add(scaled(other)?)?, scale })
    }

    fn whole(self) -> Option<i64> {
        self.value.checked_mul(10_i64.checked_pow(u32::try_from(self.scale).ok()?)?)
    }
}

impl QuantityValue {
    fn parse(text: &str) -> Result<Self, Error> {
        let quantity =
            text.parse().map_err(|error: ParseQuantityError| Error::new(error.to_string()))?;
        Ok(QuantityValue { quantity, amount: Amount::parse(text) })
    }

    fn approximate(&self) -> f64 {
        match self.amount {
            Some(Amount { value, scale: 0 }) => value as f64,
            Some(Amount { value, scale }) => {
                value as f64 * format!("1e{scale}").parse().unwrap_or(1.0)
            }
            None => approximate(&self.quantity.to_string()),
        }
    }
}

/// Approximate value of a canonical quantity.
fn approximate(text: &str) -> f64 {
    let len = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
    let (number, suffix) = text.split_at(len);
    let value: f64 = number.parse().unwrap_or(0.0);
    match suffix.strip_suffix('i').and_then(|letter| "KMGTPE".find(letter)) {
        Some(power) => value * 1024_f64.powi(power as i32 + 1),
        None => {
            let power = "num kMGTPE".find(suffix).filter(|_| !suffix.is_empty()).unwrap_or(3);
            value * format!("1e{}", power as i32 * 3 - 9).parse().unwrap_or(1.0)
        }
    }
}

fn value<'a>(quantity: QuantityValue) -> Value<'a> {
    Value::Extension(Extension::Quantity(quantity))
}

fn receiver(args: &[Value<'_>]) -> Result<QuantityValue, Error> {
    match args.first() {
        Some(Value::Extension(Extension::Quantity(value))) => Ok(*value),
        _ => Err(Error::no_such_overload()),
    }
}

fn operand(args: &[Value<'_>]) -> Result<QuantityValue, Error> {
    match args.get(1) {
        Some(Value::Extension(Extension::Quantity(value))) => Ok(*value),
        Some(Value::Int(value)) => {
            let quantity = Quantity::new(*value, Format::DecimalExponent);
            Ok(QuantityValue { quantity, amount: Some(Amount { value: *value, scale: 0 }) })
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn order(args: &[Value<'_>]) -> Result<Ordering, Error> {
    match args {
        [_, Value::Extension(_)] => Ok(receiver(args)?.quantity.cmp(&operand(args)?.quantity)),
        _ => Err(Error::no_such_overload()),
    }
}

fn add<'a>(args: &[Value<'_>]) -> Result<Value<'a>, Error> {
    let (mut sum, other) = (receiver(args)?, operand(args)?);
    sum.quantity += other.quantity;
    sum.amount = sum.amount.zip(other.amount).and_then(|(a, b)| a.plus(b));
    Ok(value(sum))
}

fn subtract<'a>(args: &[Value<'_>]) -> Result<Value<'a>, Error> {
    let (mut difference, other) = (receiver(args)?, operand(args)?);
    difference.quantity -= other.quantity;
    let negated = |b: Amount| Some(Amount { value: b.value.checked_neg()?, ..b });
    difference.amount =
        difference.amount.zip(other.amount.and_then(negated)).and_then(|(a, b)| a.plus(b));
    Ok(value(difference))
}
