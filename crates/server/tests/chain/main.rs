//! Tests of the whole handler chain before a small handler.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

mod access;
mod audit;
mod counted;
mod failures;
mod fairness;
mod headers;
mod identity;
mod order;
mod shutdown;
mod support;
