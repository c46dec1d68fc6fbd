//! `jsonpatch.escapeKey`, for expressions that make JSON patches.

use super::{Row, row};
use crate::error::Error;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[row(
    "jsonpatch.escapeKey",
    "string_jsonpatch_escapeKey_string",
    "(string) -> string",
    |args| match args {
        [Value::String(key)] => Ok(Value::string(key.replace('~', "~0").replace('/', "~1"))),
        _ => Err(Error::no_such_overload()),
    },
)];
