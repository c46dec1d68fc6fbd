//! CEL's list extension.

use std::cmp::Ordering;

use super::{MAX_LENGTH, Row, Singleton, declared, ordered, row};
use crate::error::Error;
use crate::value::{List, Value};

pub(super) const ROWS: &[Row] = &[
    ordered("slice", "list_slice", "list(T).(int, int) -> list(T)", slice),
    row("flatten", "list_flatten", "list(list(T)).() -> list(T)", |args| match args {
        [Value::List(list)] => flatten_to(list, 1),
        [other] => Err(Error::new(format!("no such overload: {}.flatten()", other.runtime_type()))),
        _ => Err(Error::no_such_overload()),
    }),
    row("flatten", "list_flatten_int", "list(dyn).(int) -> list(dyn)", |args| match args {
        [Value::List(list), Value::Int(depth)] => flatten_to(list, *depth),
        [list, depth] => {
            let (list, depth) = (list.runtime_type(), depth.runtime_type());
            Err(Error::new(format!("no such overload: {list}.flatten({depth})")))
        }
        _ => Err(Error::no_such_overload()),
    }),
    declared("sort", "list_int_sort", "list(int).() -> list(int)"),
    declared("sort", "list_uint_sort", "list(uint).() -> list(uint)"),
    declared("sort", "list_double_sort", "list(double).() -> list(double)"),
    declared("sort", "list_bool_sort", "list(bool).() -> list(bool)"),
    declared("sort", "list_google.protobuf.Duration_sort", "list(duration).() -> list(duration)"),
    declared(
        "sort",
        "list_google.protobuf.Timestamp_sort",
        "list(timestamp).() -> list(timestamp)",
    ),
    declared("sort", "list_string_sort", "list(string).() -> list(string)"),
    declared("sort", "list_bytes_sort", "list(bytes).() -> list(bytes)"),
    declared(SORT_BY, "list_int_sortByAssociatedKeys", "list(T).(list(int)) -> list(T)"),
    declared(SORT_BY, "list_uint_sortByAssociatedKeys", "list(T).(list(uint)) -> list(T)"),
    declared(SORT_BY, "list_double_sortByAssociatedKeys", "list(T).(list(double)) -> list(T)"),
    declared(SORT_BY, "list_bool_sortByAssociatedKeys", "list(T).(list(bool)) -> list(T)"),
    declared(
        SORT_BY,
        "list_google.protobuf.Duration_sortByAssociatedKeys",
        "list(T).(list(duration)) -> list(T)",
    ),
    declared(
        SORT_BY,
        "list_google.protobuf.Timestamp_sortByAssociatedKeys",
        "list(T).(list(timestamp)) -> list(T)",
    ),
    declared(SORT_BY, "list_string_sortByAssociatedKeys", "list(T).(list(string)) -> list(T)"),
    declared(SORT_BY, "list_bytes_sortByAssociatedKeys", "list(T).(list(bytes)) -> list(T)"),
    row("lists.range", "lists_range", "(int) -> list(int)", range),
    row("reverse", "list_reverse", "list(T).() -> list(T)", |args| match args {
        [Value::List(list)] => {
            let mut elements = list.iter().collect::<Result<Vec<_>, _>>()?;
            elements.reverse();
            Ok(Value::list(elements))
        }
        _ => Err(Error::no_such_overload()),
    }),
    row("distinct", "list_distinct", "list(T).() -> list(T)", distinct),
];

const SORT_BY: &str = "@sortByAssociatedKeys";
/// Limit on the length of a list whose elements are compared with each other. Longer lists cost too much, and the cost
/// is charged only afterwards.
const MAX_COMPARED: usize = 1 << 11;

pub(super) fn singleton(function: &str) -> Option<Singleton> {
    let takes: fn(&Value<'_>) -> bool = |value| matches!(value, Value::List(_));
    match function {
        "sort" => Some(Singleton {
            takes,
            call: |args| match args {
                [Value::List(list)] => sort(list, list),
                _ => Err(Error::no_such_overload()),
            },
        }),
        SORT_BY => Some(Singleton {
            takes,
            call: |args| match args {
                [Value::List(list), Value::List(keys)] => sort(list, keys),
                _ => Err(Error::no_such_overload()),
            },
        }),
        _ => None,
    }
}

fn slice<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(Error::no_such_overload());
    };
    let complain = |what: &str| Err(Error::new(format!("cannot slice({start}, {end}), {what}")));
    let (Ok(first), Ok(last)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return complain("negative indexes not supported");
    };
    if first > last {
        return complain("start index must be less than or equal to end index");
    }
    if list.len() < last {
        return complain(&format!("list is length {}", list.len()));
    }
    Ok(Value::list((first..last).filter_map(|i| list.get(i)).collect::<Result<_, _>>()?))
}

fn flatten_to<'a>(list: &List<'a>, depth: i64) -> Result<Value<'a>, Error> {
    if depth < 0 {
        return Err(Error::new("level must be non-negative"));
    }
    let mut elements = Vec::new();
    flatten(list, depth, &mut elements)?;
    Ok(Value::list(elements))
}

fn flatten<'a>(list: &List<'a>, depth: i64, out: &mut Vec<Value<'a>>) -> Result<(), Error> {
    for element in list.iter() {
        match element? {
            Value::List(inner) if depth > 0 => flatten(&inner, depth - 1, out)?,
            element => out.push(element),
        }
        if out.len() > MAX_LENGTH {
            return Err(Error::cost_limit());
        }
    }
    Ok(())
}

fn range<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match args {
        [Value::Int(end)] if *end > MAX_LENGTH as i64 => Err(Error::cost_limit()),
        [Value::Int(end)] => Ok(Value::list((0..*end).map(Value::Int).collect())),
        _ => Err(Error::no_such_overload()),
    }
}

fn sort<'a>(list: &List<'a>, keys: &List<'a>) -> Result<Value<'a>, Error> {
    if list.len() != keys.len() {
        return Err(Error::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let mut pairs = Vec::with_capacity(list.len());
    for (element, key) in list.iter().zip(keys.iter()) {
        pairs.push((key?, element?));
    }
    let Some((first, _)) = pairs.first() else { return Ok(Value::List(list.clone())) };
    let ty = first.runtime_type();
    if first.compare(first).is_err() && !matches!(first, Value::Double(_)) {
        return Err(Error::new("list elements must be comparable"));
    }
    if pairs.len() > 1 && pairs.iter().any(|(key, _)| key.runtime_type().name() != ty.name()) {
        return Err(Error::new("list elements must have the same type"));
    }
    pairs.sort_by(|(a, _), (b, _)| a.compare(b).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, element)| element).collect()))
}

fn distinct<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list)] = args else { return Err(Error::no_such_overload()) };
    let mut unique: Vec<Value<'a>> = Vec::new();
    for element in list.iter() {
        let element = element?;
        if !unique.iter().any(|known| element.equals(known).unwrap_or(false)) {
            unique.push(element);
        }
        if unique.len() > MAX_COMPARED {
            return Err(Error::cost_limit());
        }
    }
    Ok(Value::list(unique))
}
