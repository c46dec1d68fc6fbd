//! Cost of expressions: counted during evaluation, estimated before.

mod actual;
mod call;
mod estimate;
mod size;

pub(crate) use actual::{call_cost, deep_traversal};
pub(crate) use estimate::estimate;
pub use size::CostEstimate;

/// Cost of making a list.
pub(crate) const LIST_COST: u64 = 10;
/// Cost of making a map.
pub(crate) const MAP_COST: u64 = 30;
/// Cost of making an object.
pub(crate) const OBJECT_COST: u64 = 40;
/// Cost of reading a character.
const STRING_FACTOR: f64 = 0.1;
/// Cost of a character of a regular expression, for each unit of text.
const REGEX_FACTOR: f64 = 0.25;
/// Cost of an authorization check.
const AUTHORIZER_COST: u64 = 350_000;
/// Number of selector requirements that one character is counted as.
const REQUIREMENTS_PER_CHARACTER: f64 = 0.5;
const REQUIREMENT_COST: f64 = (LIST_COST + OBJECT_COST) as f64;

/// Functions that cost 1 whatever the arguments.
const UNIT_COST: &[&str] = &[
    "serviceAccount",
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "allowed",
    "reason",
    "error",
    "errored",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
];
