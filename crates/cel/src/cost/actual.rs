//! Actual cost of calls.

use super::{
    AUTHORIZER_COST, LIST_COST, REGEX_FACTOR, REQUIREMENT_COST, REQUIREMENTS_PER_CHARACTER,
    STRING_FACTOR, UNIT_COST,
};
use crate::error::Error;
use crate::library::Extension;
use crate::value::{List, Value};

type Outcome<'a> = Result<Value<'a>, Error>;

/// Cost of a call; `overload` is empty if several were possible.
pub(crate) fn call_cost(
    function: &str,
    overload: &str,
    args: &[Outcome<'_>],
    result: &Outcome<'_>,
) -> u64 {
    let size = |index: usize| args.get(index).map_or(1, size);
    list_cost(overload, args, result)
        .or_else(|| kubernetes_cost(function, overload, args, result))
        .unwrap_or_else(|| match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => traversal(size(0)),
            "in_list" => size(1),
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals" => traversal(smaller(args)),
            "add_string" | "add_bytes" => traversal(size(0) + size(1)),
            "matches_string" => matching(size(0), size(1)),
            "contains_string" => traversal(size(0)) * traversal(size(1)),
            _ => 1,
        })
}

/// Characters, bytes, elements or entries; 1 for values without a size.
fn size(outcome: &Outcome<'_>) -> u64 {
    match outcome {
        Ok(Value::Optional(Some(value))) => plain_size(value),
        Ok(value) => plain_size(value),
        Err(_) => 1,
    }
}

/// Size of the smaller of two arguments. The characters of the larger are not counted: that would take longer than the
/// comparison.
fn smaller(args: &[Outcome<'_>]) -> u64 {
    match args {
        [Ok(Value::String(a)), Ok(Value::String(b))] => {
            let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
            let count = short.chars().count();
            match long.len() / MAX_CHARACTER >= count {
                true => count as u64,
                false => count.min(long.chars().count()) as u64,
            }
        }
        [a, b] => size(a).min(size(b)),
        _ => 1,
    }
}

/// Longest UTF-8 encoding of a character, in bytes.
const MAX_CHARACTER: usize = 4;

fn plain_size(value: &Value<'_>) -> u64 {
    match value {
        Value::Extension(extension) => extension.size().unwrap_or(1),
        value => value.size().unwrap_or(1),
    }
}

fn traversal(size: u64) -> u64 {
    (size as f64 * STRING_FACTOR).ceil() as u64
}

fn matching(text: u64, pattern: u64) -> u64 {
    let text = ((1.0 + text as f64) * STRING_FACTOR).ceil() as u64;
    text.saturating_mul((pattern as f64 * REGEX_FACTOR).ceil() as u64)
}

/// Cost of a call of CEL's extensions for sets and lists.
fn list_cost(overload: &str, args: &[Outcome<'_>], result: &Outcome<'_>) -> Option<u64> {
    let size = |index: usize| args.get(index).map_or(1, size);
    // A negative factor wraps around, as it does in the reference; the call has failed anyway.
    let allocating =
        |factor: f64, size: u64| ((size as f64 * factor) as i64 as u64).wrapping_add(1 + LIST_COST);
    let compared = |index: usize| match args.get(index) {
        Some(Ok(Value::List(list))) => {
            let len = list.len() as u64;
            let text = matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
            Some(allocating(if text { 2.0 + STRING_FACTOR } else { 2.0 }, len * len))
        }
        _ => None,
    };
    match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => Some(1 + size(0) * size(1)),
        "list_sets_equivalent_list" => Some(1 + size(0) * size(1) * 2),
        "list_slice" | "lists_range" | "list_reverse" => Some(allocating(1.0, self::size(result))),
        "list_flatten" => Some(allocating(1.0, size(0))),
        "list_flatten_int" => match args.get(1) {
            Some(Ok(Value::Int(depth))) => Some(allocating(*depth as f64, size(0))),
            _ => None,
        },
        "list_distinct" => compared(0),
        _ if overload.ends_with("_sort") => compared(0),
        _ if overload.ends_with("_sortByAssociatedKeys") => compared(1),
        _ => None,
    }
}

fn kubernetes_cost(
    function: &str,
    overload: &str,
    args: &[Outcome<'_>],
    result: &Outcome<'_>,
) -> Option<u64> {
    // Unlike elsewhere, optional values have no size here.
    let plain = |outcome: &Outcome<'_>| match outcome {
        Ok(value) => plain_size(value),
        Err(_) => 1,
    };
    let size = |index: usize| args.get(index).map_or(1, plain);
    if UNIT_COST.contains(&function) {
        return Some(1);
    }
    Some(match function {
        "check" => AUTHORIZER_COST,
        "fieldSelector" | "labelSelector" => {
            let requirements = (size(1) as f64 * REQUIREMENTS_PER_CHARACTER).ceil();
            LIST_COST + traversal(size(1)) + (requirements * REQUIREMENT_COST).ceil() as u64
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match args.first() {
            Some(Ok(value)) => deep_traversal(value),
            _ => 1,
        },
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => traversal(size(0)),
        "replace" | "split" | "ip.isCanonical" => traversal_twice(size(0)),
        "join" => traversal_twice(plain(result)),
        "find" | "findAll" => matching(size(0), size(1)),
        "ip" if overload == "cidr_ip" => 1,
        "ip" => traversal(size(0)),
        "containsIP" => {
            let compare = traversal(size(0) * 2);
            compare + if overload == "cidr_contains_ip_string" { traversal(size(1)) } else { 0 }
        }
        "containsCIDR" => {
            let compare = traversal(size(0) * 2) + traversal(size(0)) + 1;
            compare + if overload == "cidr_contains_cidr_string" { traversal(size(1)) } else { 0 }
        }
        "validate" => match args.first() {
            Some(Ok(Value::Extension(Extension::Format(format)))) => {
                matching(size(1), format.regex_size)
            }
            _ => return None,
        },
        "_==_" => match args.first() {
            Some(Ok(Value::Extension(_))) => 1,
            _ => return None,
        },
        _ => return None,
    })
}

fn traversal_twice(size: u64) -> u64 {
    (size as f64 * 2.0 * STRING_FACTOR).ceil() as u64
}

/// Cost of reading everything in a value.
pub(crate) fn deep_traversal(value: &Value<'_>) -> u64 {
    let bytes = |len: usize| (len as f64 * STRING_FACTOR) as u64;
    match value {
        Value::String(text) => bytes(text.len()),
        Value::Bytes(content) => bytes(content.len()),
        Value::List(list) => elements(list),
        Value::Map(map) => map
            .entries()
            .map(|(key, value)| {
                deep_traversal(&key) + value.map_or(1, |value| deep_traversal(&value))
            })
            .sum(),
        _ => 1,
    }
}

fn elements(list: &List<'_>) -> u64 {
    list.iter().map(|element| element.map_or(1, |element| deep_traversal(&element))).sum()
}
