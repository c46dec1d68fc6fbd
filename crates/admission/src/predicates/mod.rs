//! Which writes a webhook or policy is about.
