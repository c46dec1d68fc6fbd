//! Metrics of service account tokens.

use std::sync::Arc;

use kevel_server::metrics::{Counter, Description, Metrics};

/// Counters of token uses.
#[derive(Debug)]
pub struct TokenUses {
    /// Tokens without an audience.
    pub(super) legacy: Arc<Counter>,
    /// Stale tokens, which should have been renewed.
    pub(super) stale: Arc<Counter>,
    /// Bound tokens that are not stale.
    pub(super) valid: Arc<Counter>,
    /// Legacy tokens in manually created secrets.
    pub(super) manual: Arc<Counter>,
    /// Legacy tokens in auto-generated secrets.
    pub(super) automatic: Arc<Counter>,
    /// Invalidated legacy tokens.
    pub(super) invalid: Arc<Counter>,
}

impl TokenUses {
    /// Registers the counters with the reference's names.
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
                "[ALPHA] Uses of tokens in secrets that were created by a client.",
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
