//! Reviews: questions about access that are asked by creating an object which is not stored.

mod access_review;
mod rules_review;
mod selectors;

pub use access_review::AccessReview;
pub use rules_review::RulesReview;
