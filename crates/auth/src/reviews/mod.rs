//! Reviews: authentication and authorization questions, asked by creating an object that is not stored.

mod access_review;
mod rules_review;
mod selectors;
mod self_subject_review;
mod token_review;

pub use access_review::AccessReview;
pub use rules_review::RulesReview;
pub use self_subject_review::SelfSubjectReview;
pub use token_review::TokenReview;
