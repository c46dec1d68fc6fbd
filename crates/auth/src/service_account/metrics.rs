//! How tokens are used.

use std::sync::Arc;

use kevel_server::metrics::{Counter, Description, Metrics};

/// Uses of tokens that should not be used any longer, and of those that should.
#[derive(Debug)]
pub struct TokenUses {
    /// Of tokens that do not say whom they are for.
    pub(super) legacy: Arc<Counter>,
    /// Of tokens that should have been renewed.
    pub(super) stale: Arc<Counter>,
    /// Of tokens that will have to be renewed.
    pub(super) valid: Arc<Counter>,
    /// Of tokens in secrets that somebody asked for.
    pub(super) manual: Arc<Counter>,
    /// Of tokens in secrets that nobody asked for.
    pub(super) automatic: Arc<Counter>,
    /// Of tokens in secrets that must not be used.
    pub(super) invalid: Arc<Counter>,
}

impl TokenUses {
    /// Counts under the reference's names.
    pub fn new(metrics: &Metrics) -> Self {
        let counter =
            |name, help| metrics.counter(Description { name, help, labels: &[] }).with(&[]);
        TokenUses {
            legacy: counter(
                "serviceaccount_legacy_tokens_total",
                "[ALPHA] Uses of service account tokens without an audience.",
            ),
            stale: counter(
                "serviceaccount_stale_tokens_total",
                "[ALPHA] Uses of service account tokens that should have been renewed.",
            ),
            valid: counter(
                "serviceaccount_valid_tokens_total",
                "[ALPHA] Uses of service account tokens with an extended validity in time.",
            ),
            manual: counter(
                "serviceaccount_legacy_manual_token_uses_total",
                "[ALPHA] Uses of tokens in secrets that somebody made.",
            ),
            automatic: counter(
                "serviceaccount_legacy_auto_token_uses_total",
                "[ALPHA] Uses of tokens in secrets that were made for every service account.",
            ),
            invalid: counter(
                "serviceaccount_invalid_legacy_auto_token_uses_total",
                "[ALPHA] Uses of tokens in secrets that are marked as invalid.",
            ),
        }
    }
}
