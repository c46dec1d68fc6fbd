//! Webhooks that decide, over TLS, and the configuration file that names them.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

mod reload;
mod server;
mod webhook;
