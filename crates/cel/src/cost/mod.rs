//! What expressions cost: counted while they are evaluated, estimated before.

mod actual;
mod call;
mod estimate;
mod size;

pub(crate) use actual::{call_cost, deep_traversal};
pub(crate) use estimate::estimate;
pub use size::CostEstimate;

/// What making a list costs.
pub(crate) const LIST_COST: u64 = 10;
/// What making a map costs.
pub(crate) const MAP_COST: u64 = 30;
/// What making an object costs.
pub(crate) const OBJECT_COST: u64 = 40;
/// What looking at a character costs.
const STRING_FACTOR: f64 = 0.1;
/// What a character of a regular expression costs for each unit of text.
const REGEX_FACTOR: f64 = 0.25;
/// What asking the authorizer costs.
const AUTHORIZER_COST: u64 = 350_000;
/// A character of a selector makes for so many requirements.
const REQUIREMENTS_PER_CHARACTER: f64 = 0.5;
const REQUIREMENT_COST: f64 = (LIST_COST + OBJECT_COST) as f64;

/// Functions that cost one, whatever they are called with.
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
