//! Numbers, ports and quantities.

use kevel_api::field_error::BadValue;
use kevel_api::name;
use kevel_api::quantity::Quantity;
use kevel_api::value::Value;

use super::Field;

/// Why a number below zero is refused.
const NEGATIVE: &str = "must be greater than or equal to 0";
/// Why a number is refused that is not above zero.
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

    /// A number between two others, or one of them.
    pub fn in_range(&self, min: i64, max: i64) {
        for problem in name::is_in_range(self.int(), min, max) {
            self.invalid_as(self.int(), problem);
        }
    }

    /// A number between two others, where there is one.
    pub fn in_range_if_set(&self, min: i64, max: i64) {
        if self.is_set() {
            self.in_range(min, max);
        }
    }

    /// The ID of a user or a group, where there is one.
    pub fn user_or_group(&self) {
        self.in_range_if_set(0, i64::from(i32::MAX));
    }

    /// The number or the name of a port.
    pub fn port_or_name(&self) {
        match self.get() {
            Some(Value::String(_)) => self.form(name::is_valid_port_name),
            _ => self.in_range(1, 65_535),
        }
    }

    /// What stands here as a quantity.
    pub fn quantity(&self) -> Option<Quantity> {
        match self.get()? {
            Value::String(text) => text.parse().ok(),
            Value::Int(number) => Some(Quantity::new(*number, Default::default())),
            _ => None,
        }
    }

    /// A quantity as messages show it, which is as it was written wherever that is a form that stays.
    pub fn quantity_text(&self) -> String {
        match self.get() {
            Some(Value::String(text)) => text.to_string(),
            _ => self.quantity().map(|amount| amount.to_string()).unwrap_or_default(),
        }
    }

    /// A quantity that is not below zero.
    pub fn non_negative_quantity(&self) {
        match self.quantity() {
            Some(amount) if amount.signum() < 0 => {
                self.invalid_as(self.quantity_text(), NEGATIVE);
            }
            _ => {}
        }
    }

    /// A whole number or a percentage that is not below zero.
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

    /// The percentage that stands here, if it is one.
    pub fn percent(&self) -> Option<i64> {
        let digits = self.str().strip_suffix('%')?;
        digits.parse().ok().filter(|_| name::is_valid_percent(self.str()).is_empty())
    }

    /// A percentage is at most all.
    pub fn at_most_all(&self) {
        if self.percent().is_some_and(|percent| percent > 100) {
            self.invalid_as(self.bad_value_as_json(), "must not be greater than 100%");
        }
    }
}
