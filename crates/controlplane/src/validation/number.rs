//! Validation of numbers, ports and quantities.

use kevel_api::field_error::BadValue;
use kevel_api::name;
use kevel_api::quantity::Quantity;
use kevel_api::value::Value;

use super::Field;

/// Message about a negative number.
const NEGATIVE: &str = "must be greater than or equal to 0";
/// Message about a number that is not positive.
pub const NOT_POSITIVE: &str = "must be greater than zero";

impl Field<'_, '_> {
    pub fn non_negative(&self) {
        if self.int() < 0 {
            self.invalid(NEGATIVE);
        }
    }

    pub fn positive(&self) {
        if self.int() <= 0 {
            self.invalid_as(self.int(), NOT_POSITIVE);
        }
    }

    /// Checks that a number is in a range, ends included.
    pub fn in_range(&self, min: i64, max: i64) {
        for problem in name::is_in_range(self.int(), min, max) {
            self.invalid_as(self.int(), problem);
        }
    }

    /// Checks the range of an optional number.
    pub fn in_range_if_set(&self, min: i64, max: i64) {
        if self.is_set() {
            self.in_range(min, max);
        }
    }

    /// Checks an optional user or group ID.
    pub fn user_or_group(&self) {
        self.in_range_if_set(0, i64::from(i32::MAX));
    }

    /// Checks a port number or port name.
    pub fn port_or_name(&self) {
        match self.get() {
            Some(Value::String(_)) => self.form(name::is_valid_port_name),
            _ => self.in_range(1, 65_535),
        }
    }

    /// Value as a quantity.
    pub fn quantity(&self) -> Option<Quantity> {
        match self.get()? {
            Value::String(text) => text.parse().ok(),
            Value::Int(number) => Some(Quantity::new(*number, Default::default())),
            _ => None,
        }
    }

    /// Quantity as messages show it: as it was written, if it is a text.
    pub fn quantity_text(&self) -> String {
        match self.get() {
            Some(Value::String(text)) => text.to_string(),
            _ => self.quantity().map(|amount| amount.to_string()).unwrap_or_default(),
        }
    }

    /// Checks that a quantity is not negative.
    pub fn non_negative_quantity(&self) {
        match self.quantity() {
            Some(amount) if amount.signum() < 0 => {
                self.invalid_as(self.quantity_text(), NEGATIVE);
            }
            _ => {}
        }
    }

    /// Checks a number or percentage that must not be negative.
    pub fn non_negative_or_percent(&self) {
        match self.get() {
            Some(Value::String(text)) => {
                for problem in name::is_valid_percent(text) {
                    self.invalid_as(BadValue::named_string(text), problem);
                }
            }
            _ => self.non_negative(),
        }
    }

    /// Percentage; `None` if the value is not one.
    pub fn percent(&self) -> Option<i64> {
        let digits = self.str().strip_suffix('%')?;
        digits.parse().ok().filter(|_| name::is_valid_percent(self.str()).is_empty())
    }

    /// Checks that a percentage is at most 100.
    pub fn at_most_all(&self) {
        if self.percent().is_some_and(|percent| percent > 100) {
            self.invalid_as(self.bad_value_as_json(), "must not be greater than 100%");
        }
    }
}
