//! `includes`, for expressions about DRA devices, whose attributes may be lists.

use super::{Row, row};
use crate::error::Error;
use crate::value::Value;

pub(super) const ROWS: &[Row] =
    &[row("includes", "dra_includes_dyn_dyn", "dyn.(dyn) -> bool", |args| match args {
        [Value::List(list), wanted] => {
            for (index, element) in list.iter().enumerate() {
                if index >= MAX_VALUES {
                    return Err(Error::new(format!(
                        "'includes' function cannot be applied to lists longer than {MAX_VALUES} \
                         values"
                    )));
                }
                if element?.equals(wanted).unwrap_or_default() {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        [value, wanted] => Ok(Value::Bool(value.equals(wanted).unwrap_or_default())),
        _ => Err(Error::no_such_overload()),
    })];

/// Limit on the values of a device's attributes.
pub(crate) const MAX_VALUES: usize = 48;
