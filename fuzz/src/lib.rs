//! Shared parts of the targets: generation of objects, patches and decisions from bytes ([`Source`]), and a whole API
//! server in memory ([`api`]).

pub mod api;
mod generate;
mod source;

pub use source::Source;

use kevel_api::default;
use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};

/// A tree as the server has it: read by its schema, and defaulted. `None` for what the decoder refuses.
pub fn typed(tree: &Value, schema: Schema<'_>) -> Option<Value> {
    let mut value = json::decode(&text(tree), schema, Unknown::Ignore).ok()?.value;
    default::apply(&mut value, schema);
    Some(value)
}

/// A tree as JSON.
pub fn text(tree: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    json::encode_any(tree, &mut text);
    text
}

/// A tree as a person reads it, for messages.
pub fn shown(tree: &Value) -> String {
    String::from_utf8_lossy(&text(tree)).into_owned()
}

/// Says what a target does with an input, for who looks into a crash: with `KEVEL_FUZZ_TRACE` set.
pub fn trace(what: impl FnOnce() -> String) {
    static ON: std::sync::LazyLock<bool> =
        std::sync::LazyLock::new(|| std::env::var_os("KEVEL_FUZZ_TRACE").is_some());
    if *ON {
        eprintln!("{}", what());
    }
}
