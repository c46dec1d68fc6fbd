//! Estimated cost of calls, from the sizes of their operands.

use super::size::{CostEstimate, SizeEstimate};
use super::{
    AUTHORIZER_COST, LIST_COST, REGEX_FACTOR, REQUIREMENT_COST, REQUIREMENTS_PER_CHARACTER,
    STRING_FACTOR, UNIT_COST,
};
use crate::library::MAX_INCLUDES;
use crate::types::Type;

/// Facts about a receiver or argument.
pub(super) struct Operand {
    pub ty: Type,
    pub size: Option<SizeEstimate>,
    /// Declared size of a list's elements.
    pub element_size: Option<SizeEstimate>,
    pub literal: Option<i64>,
}

impl Operand {
    fn size(&self) -> SizeEstimate {
        self.size.unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// Type of a list's elements.
    fn element(&self) -> Option<Type> {
        self.ty.parameters().first().map(|ty| (*ty).clone())
    }

    fn element_size(&self) -> SizeEstimate {
        self.element_size.unwrap_or(SizeEstimate::UNKNOWN)
    }
}

/// Cost estimate of a call.
pub(super) struct CallEstimate {
    pub cost: CostEstimate,
    pub result_size: Option<SizeEstimate>,
    pub kind: Estimate,
}

/// Evaluation of a call's arguments, which decides how their costs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Estimate {
    /// A call that evaluates all its arguments.
    Plain,
    /// The first is evaluated, and perhaps the second.
    ShortCircuit,
    /// The first is evaluated, and one of the others.
    Conditional,
}

impl CallEstimate {
    /// Cost of the call together with its arguments.
    pub fn with_arguments(&self, args: &[CostEstimate]) -> CostEstimate {
        let sum = || args.iter().fold(CostEstimate::default(), |sum, arg| sum.add(*arg));
        match (self.kind, args) {
            (Estimate::ShortCircuit, [left, right]) => {
                CostEstimate { min: left.min, max: left.add(*right).max }
            }
            (Estimate::Conditional, [condition, truthy, falsy]) => {
                condition.add(truthy.union(*falsy))
            }
            _ => self.cost.add(sum()),
        }
    }
}

const ONE: CostEstimate = CostEstimate::fixed(1);

/// Estimates a call of an overload, without its arguments.
pub(super) fn call_estimate(
    function: &str,
    overload: &str,
    target: Option<&Operand>,
    args: &[Operand],
) -> CallEstimate {
    let (cost, result_size) = list_estimate(overload, target, args)
        .or_else(|| kubernetes_estimate(function, overload, target, args))
        .unwrap_or_else(|| standard_estimate(overload, target, args));
    let kind = match overload {
        "logical_and" | "logical_or" => Estimate::ShortCircuit,
        "conditional" => Estimate::Conditional,
        _ => Estimate::Plain,
    };
    CallEstimate { cost, result_size, kind }
}

/// Cost, and size of the result if it is known.
type Sized = (CostEstimate, Option<SizeEstimate>);

/// Estimates a call of CEL's extensions for sets and lists.
fn list_estimate(overload: &str, target: Option<&Operand>, args: &[Operand]) -> Option<Sized> {
    let allocating = |factor: f64, size: SizeEstimate| {
        Some((size.scale(factor).add(ONE).add(CostEstimate::fixed(LIST_COST)), Some(size)))
    };
    let literal = |index: usize, default: u64| match args.get(index).and_then(|arg| arg.literal) {
        Some(value) => u64::try_from(value).unwrap_or(0),
        None => default,
    };
    let sets = |factor: f64| match args {
        [a, b] => Some((a.size().multiply(b.size()).scale(factor).add(ONE), None)),
        _ => None,
    };
    let compared = |operand: &Operand, text: bool| {
        let factor = if text { 2.0 + STRING_FACTOR } else { 2.0 };
        allocating(factor, operand.size().multiply(operand.size()))
    };
    match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => sets(1.0),
        "list_sets_equivalent_list" => sets(2.0),
        "list_slice" => {
            let end = literal(1, target?.size().max);
            allocating(1.0, SizeEstimate::fixed(end.wrapping_sub(literal(0, 0))))
        }
        "lists_range" => allocating(1.0, SizeEstimate::fixed(literal(0, u64::MAX))),
        "list_reverse" => allocating(1.0, target?.size()),
        "list_flatten" => allocating(1.0, target?.size()),
        "list_flatten_int" => allocating(literal(0, u64::MAX) as f64, target?.size()),
        "list_distinct" => compared(target?, false),
        _ => {
            let (ty, by_keys) = match overload.strip_suffix("_sort") {
                Some(ty) => (ty, false),
                None => (overload.strip_suffix("_sortByAssociatedKeys")?, true),
            };
            let operand = if by_keys { args.first()? } else { target? };
            compared(operand, matches!(ty, "list_string" | "list_bytes"))
        }
    }
}

fn kubernetes_estimate(
    function: &str,
    overload: &str,
    target: Option<&Operand>,
    args: &[Operand],
) -> Option<Sized> {
    let plain = |cost: CostEstimate| Some((cost, None));
    let traversal = |size: SizeEstimate| size.scale(STRING_FACTOR);
    let first = || args.first().map(Operand::size);
    // An address has 4 or 16 bytes.
    let address = SizeEstimate { min: 4, max: 16 };
    if UNIT_COST.contains(&function) {
        return plain(ONE);
    }
    match function {
        "check" => plain(CostEstimate::fixed(AUTHORIZER_COST)),
        "includes" => plain(CostEstimate { min: 0, max: MAX_INCLUDES as u64 }),
        "fieldSelector" | "labelSelector" => {
            let requirements = first()?.scale(REQUIREMENTS_PER_CHARACTER).scale(REQUIREMENT_COST);
            plain(CostEstimate::fixed(LIST_COST).add(traversal(first()?)).add(requirements))
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            let target = target?;
            match target.element() {
                Some(Type::String | Type::Bytes) => {
                    let element = ONE.add(traversal(target.element_size()));
                    plain(target.size().multiply(element))
                }
                Some(_) => plain(target.size()),
                None => plain(traversal(target.size())),
            }
        }
        "url" | "jsonpatch.escapeKey" => Some((traversal(first()?), first())),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            Some((traversal(target?.size()), Some(target?.size())))
        }
        "replace" => match args {
            [from, to, ..] => {
                let size = target?.size();
                Some((
                    size.scale(2.0 * STRING_FACTOR),
                    Some(replaced(size, from.size(), to.size())),
                ))
            }
            _ => None,
        },
        "split" => {
            let size = target?.size();
            let max = args.get(1).and_then(|arg| arg.literal).map_or(size.max, |max| max as u64);
            Some((size.scale(2.0 * STRING_FACTOR), Some(SizeEstimate { min: 0, max })))
        }
        "join" => {
            let size = joined(target?, args.first());
            Some((traversal(size), Some(size)))
        }
        "find" | "findAll" => {
            let text = target?.size();
            let cost = traversal(text.add(ONE)).multiply(first()?.scale(REGEX_FACTOR));
            Some((cost, Some(SizeEstimate { min: 0, max: text.max })))
        }
        "ip" if overload == "cidr_ip" => plain(ONE),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            plain(traversal(first()?))
        }
        "ip.isCanonical" => plain(first()?.scale(2.0 * STRING_FACTOR)),
        "containsIP" => {
            let compare = traversal(address.add(address));
            let parse =
                (overload == "cidr_contains_ip_string").then(|| first().map(traversal)).flatten();
            plain(compare.add(parse.unwrap_or_default()))
        }
        "containsCIDR" => {
            let compare = traversal(address.add(address)).add(traversal(address)).add(ONE);
            let parse =
                (overload == "cidr_contains_cidr_string").then(|| first().map(traversal)).flatten();
            plain(compare.add(parse.unwrap_or_default()))
        }
        "validate" => {
            const LONGEST_PATTERN: f64 = 128.0;
            plain(traversal(first()?).scale(LONGEST_PATTERN * REGEX_FACTOR))
        }
        "_==_" => match args {
            [a, b] if a.ty.is_equivalent(&b.ty) => equality(&a.ty, b),
            _ => None,
        },
        _ => None,
    }
}

/// Estimates the comparison of two values of a Kubernetes type.
fn equality(ty: &Type, right: &Operand) -> Option<Sized> {
    match ty.name() {
        "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => Some((ONE, None)),
        name if name.starts_with("kubernetes.authorization.") => Some((ONE, None)),
        "kubernetes.NamedFormat" => {
            const LONGEST_NAME: u64 = 64;
            Some((CostEstimate { min: 1, max: LONGEST_NAME }.scale(STRING_FACTOR), None))
        }
        "kubernetes.URL" => {
            let max = right.size.unwrap_or(ONE).max;
            Some((CostEstimate { min: 1, max }.scale(STRING_FACTOR), None))
        }
        _ => None,
    }
}

/// Size of a text after replacing parts of one size by parts of another.
fn replaced(size: SizeEstimate, from: SizeEstimate, to: SizeEstimate) -> SizeEstimate {
    let (mut count, mut retained) = (SizeEstimate::default(), SizeEstimate::default());
    let parts = |size: u64, of: u64| (size as f64 / of as f64).ceil() as u64;
    if from.min == 0 {
        (count.max, retained.max) = (size.max.saturating_add(1), size.max);
    } else if to.max <= from.min {
        (count.max, retained.max) = (0, size.max);
    } else {
        count.max = parts(size.max, from.min);
    }
    if from.max == 0 {
        (count.min, retained.min) = (size.min.saturating_add(1), size.min);
    } else if from.max <= to.min {
        (count.min, retained.min) = (0, size.min);
    } else {
        count.min = parts(size.min, from.max);
    }
    count.multiply(to).add(retained)
}

/// Size of a list's elements joined with a separator.
fn joined(list: &Operand, separator: Option<&Operand>) -> SizeEstimate {
    let count = list.size();
    let elements = match list.element() {
        Some(_) => count.multiply(list.element_size()),
        None => SizeEstimate::default(),
    };
    let separators =
        SizeEstimate { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
    match separator {
        Some(separator) => elements.add(separator.size().multiply(separators)),
        None => elements,
    }
}

fn standard_estimate(overload: &str, target: Option<&Operand>, args: &[Operand]) -> Sized {
    let traversal = |size: SizeEstimate| size.scale(STRING_FACTOR);
    let (cost, size) = match (overload, target, args) {
        ("string_format", Some(target), _) => (traversal(target.size()), None),
        ("string_to_bytes", _, [arg]) => {
            let SizeEstimate { min, max } = arg.size();
            (traversal(arg.size()), Some(SizeEstimate { min, max: max.wrapping_mul(4) }))
        }
        ("bytes_to_string", _, [arg]) => {
            let SizeEstimate { min, max } = arg.size();
            (traversal(arg.size()), Some(SizeEstimate { min: min / 4, max }))
        }
        ("strings_quote", _, [arg]) => {
            let SizeEstimate { min, max } = arg.size();
            let size =
                SizeEstimate { min: min.wrapping_add(2), max: max.wrapping_mul(2).wrapping_add(2) };
            (traversal(arg.size()), Some(size))
        }
        ("starts_with_string" | "ends_with_string", _, [arg]) => (traversal(arg.size()), None),
        ("in_list", _, [_, list]) => (list.size(), None),
        ("matches_string", Some(target), [pattern]) => {
            let text = traversal(target.size().add(ONE));
            (text.multiply(pattern.size().scale(REGEX_FACTOR)), None)
        }
        ("contains_string", Some(target), [part]) => {
            (traversal(target.size()).multiply(traversal(part.size())), None)
        }
        ("conditional", _, [_, truthy, falsy]) => {
            (CostEstimate::default(), Some(truthy.size().union(falsy.size())))
        }
        ("add_list", _, [a, b]) => (ONE, Some(a.size().add(b.size()))),
        ("add_string" | "add_bytes", _, [a, b]) => {
            let size = a.size().add(b.size());
            (traversal(size), Some(size))
        }
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            [a, b],
        ) => {
            let max = a.size().max.min(b.size().max);
            (traversal(CostEstimate { min: u64::from(max > 0), max }), None)
        }
        _ => (ONE, None),
    };
    (cost, size)
}
