//! Types of flag values.

use super::number::{parse_bool, parse_float, parse_int, parse_uint, print_float};
use kevel_api::duration::Duration;
use kevel_api::quantity::Quantity;
use kevel_api::quote::quote;
use std::net::IpAddr;

/// A value that a flag sets.
pub trait Value {
    /// Type of the value.
    fn value_type(&self) -> ValueType;

    /// Takes a text from the command line. The first replaces the default; a `repeated` one adds
    /// to values that can grow.
    fn set(&mut self, text: &str, repeated: bool) -> Result<(), String>;

    /// The value as the reference prints it.
    fn text(&self) -> String;
}

/// A kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// Name of the type in `--help`.
    pub name: &'static str,
    /// Value of a flag of this type that is given without one.
    pub implied: Option<&'static str>,
    /// The text of a default that `--help` need not mention.
    pub zero: &'static str,
}

impl ValueType {
    /// A type whose flags need a value.
    pub const fn new(name: &'static str, zero: &'static str) -> Self {
        ValueType { name, implied: None, zero }
    }
}

impl Value for bool {
    fn value_type(&self) -> ValueType {
        ValueType { name: "bool", implied: Some("true"), zero: "false" }
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = parse_bool(text)?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for i64 {
    fn value_type(&self) -> ValueType {
        ValueType::new("int", "0")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = parse_int(text, 64)?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for u64 {
    fn value_type(&self) -> ValueType {
        ValueType::new("uint", "0")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = parse_uint(text, 0, 64)?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for f64 {
    fn value_type(&self) -> ValueType {
        ValueType::new("float", "0")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = parse_float(text)?;
        Ok(())
    }

    fn text(&self) -> String {
        print_float(&format!("{self:e}"), &self.to_string())
    }
}

impl Value for f32 {
    fn value_type(&self) -> ValueType {
        ValueType::new("float32", "0")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = parse_float(text)?;
        Ok(())
    }

    fn text(&self) -> String {
        print_float(&format!("{self:e}"), &self.to_string())
    }
}

impl Value for String {
    fn value_type(&self) -> ValueType {
        ValueType::new("string", "")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        text.clone_into(self);
        Ok(())
    }

    fn text(&self) -> String {
        self.clone()
    }
}

impl Value for Duration {
    fn value_type(&self) -> ValueType {
        ValueType::new("duration", "0s")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = text.parse().map_err(|error| format!("{error}"))?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for Quantity {
    fn value_type(&self) -> ValueType {
        ValueType::new("quantity", "0")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        *self = text.parse().map_err(|error| format!("{error}"))?;
        Ok(())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for Option<IpAddr> {
    fn value_type(&self) -> ValueType {
        ValueType::new("ip", "<nil>")
    }

    /// Sets the address; an empty text leaves it as it is.
    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        if !text.is_empty() {
            let ip: Result<IpAddr, _> = text.trim().parse();
            let ip = ip.map_err(|_| format!("failed to parse IP: {}", quote(text)))?;
            *self = Some(ip.to_canonical());
        }
        Ok(())
    }

    fn text(&self) -> String {
        self.map_or_else(|| "<nil>".to_owned(), |ip| ip.to_string())
    }
}
