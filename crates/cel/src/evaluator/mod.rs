//! Evaluation: a checked expression becomes a plan, and the plan is evaluated.

mod attribute;
mod evaluate;
mod fold;
mod plan;

pub(crate) use evaluate::evaluate;
pub(crate) use plan::{Plan, plan};
