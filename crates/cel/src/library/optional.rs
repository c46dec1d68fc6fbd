//! Optional values.

use super::{Row, declared, ordered, row};
use crate::error::Error;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    row("optional.of", "optional_of", "(V) -> optional(V)", |args| match args {
        [value] => Ok(Value::some(value.clone())),
        _ => Err(Error::no_such_overload()),
    }),
    row("optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) -> optional(V)", |args| {
        match args {
            [value] if value.is_zero() => Ok(Value::Optional(None)),
            [value] => Ok(Value::some(value.clone())),
            _ => Err(Error::no_such_overload()),
        }
    }),
    ordered("optional.none", "optional_none", "() -> optional(V)", |_| Ok(Value::Optional(None))),
    row("value", "optional_value", "optional(V).() -> V", |args| match args {
        [Value::Optional(Some(value))] => Ok((**value).clone()),
        [Value::Optional(None)] => Err(Error::new("optional.none() dereference")),
        _ => Err(Error::no_such_overload()),
    }),
    row("hasValue", "optional_hasValue", "optional(V).() -> bool", |args| match args {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(Error::no_such_overload()),
    }),
    declared("or", "optional_or_optional", "optional(V).(optional(V)) -> optional(V)"),
    declared("orValue", "optional_orValue_value", "optional(V).(V) -> V"),
    declared("_?._", "select_optional_field", "(dyn, string) -> optional(V)"),
    declared("_[?_]", "list_optindex_optional_int", "(list(V), int) -> optional(V)"),
    declared(
        "_[?_]",
        "optional_list_optindex_optional_int",
        "(optional(list(V)), int) -> optional(V)",
    ),
    declared("_[?_]", "map_optindex_optional_value", "(map(K, V), K) -> optional(V)"),
    declared(
        "_[?_]",
        "optional_map_optindex_optional_value",
        "(optional(map(K, V)), K) -> optional(V)",
    ),
    row("last", "list_last", "list(V).() -> optional(V)", |args| match args {
        [Value::List(list)] => element(list.len().checked_sub(1).and_then(|last| list.get(last))),
        _ => Err(Error::no_such_overload()),
    }),
    row("first", "list_first", "list(V).() -> optional(V)", |args| match args {
        [Value::List(list)] => element(list.get(0)),
        _ => Err(Error::no_such_overload()),
    }),
    row("optional.unwrap", "optional_unwrap", "(list(optional(V))) -> list(V)", unwrap),
    row("unwrapOpt", "optional_unwrapOpt", "list(optional(V)).() -> list(V)", unwrap),
    ordered(
        "cel.@mapInsert",
        "@mapInsert_map_key_value",
        "(map(K, V), K, V) -> map(K, V)",
        |args| match args {
            [Value::Map(map), key, value] => {
                Ok(Value::Map(map.clone().insert(key, value.clone())?))
            }
            _ => Err(Error::no_such_overload()),
        },
    ),
    row("cel.@mapInsert", "@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)", |args| {
        let [Value::Map(map), Value::Map(entries)] = args else {
            return Err(Error::no_such_overload());
        };
        let mut map = map.clone();
        for (key, value) in entries.entries() {
            map = map.insert(&key, value?)?;
        }
        Ok(Value::Map(map))
    }),
];

fn element<'a>(element: Option<Result<Value<'a>, Error>>) -> Result<Value<'a>, Error> {
    Ok(match element {
        Some(element) => Value::some(element?),
        None => Value::Optional(None),
    })
}

fn unwrap<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list)] = args else { return Err(Error::no_such_overload()) };
    let mut values = Vec::new();
    for element in list.iter() {
        match element? {
            Value::Optional(None) => {}
            Value::Optional(Some(value)) => values.push((*value).clone()),
            other => return Err(Error::new(format!("value {other} is not optional"))),
        }
    }
    Ok(Value::list(values))
}
