//! Texts of three megabytes.

use std::fmt::Write;

/// As much as a request may have, but for what stands around it.
pub const SIZE: usize = (3 << 20) - (16 << 10);

/// Placeholder in an object that [`put`] fills in.
pub const MARK: &str = "\"@@\"";

/// An object's text with something in the place of the mark.
pub fn put(object: &serde_json::Value, filling: &str) -> String {
    object.to_string().replacen(MARK, filling, 1)
}

/// `[part,part,…]`
pub fn list(part: impl Fn(usize) -> String) -> String {
    list_of(SIZE, part)
}

/// A list of so many bytes.
pub fn list_of(size: usize, part: impl Fn(usize) -> String) -> String {
    between('[', ']', size, part)
}

/// `{part,part,…}`, of which each is a key and its value.
pub fn map(part: impl Fn(usize) -> String) -> String {
    between('{', '}', SIZE, part)
}

/// The same of so many bytes.
pub fn map_of(size: usize, part: impl Fn(usize) -> String) -> String {
    between('{', '}', size, part)
}

/// A string of one letter.
pub fn string() -> String {
    format!("\"{}\"", "x".repeat(SIZE))
}

fn between(open: char, close: char, size: usize, part: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(size + 64);
    text.push(open);
    for index in 0.. {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{}", part(index));
        if text.len() > size {
            break;
        }
    }
    text.push(close);
    text
}
