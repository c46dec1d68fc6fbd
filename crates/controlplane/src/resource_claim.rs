//! Claims of devices, and templates of claims: what is asked for does not change.

use crate::rules::Rules;

/// The rules of claims and of their templates.
pub const RULES: Rules =
    Rules { check_update: |claim, old| claim.at("spec").immutable(&old.at("spec")), ..Rules::NONE };
