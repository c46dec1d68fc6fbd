//! Webhooks that are asked about writes.
