//! Values as Go prints them in error messages.

use std::collections::BTreeMap;
use std::fmt::Write;

use kevel_api::quote::quote;

use super::document::{Document, Id, View};
use super::float::general;

/// Limits on the length and depth of a message.
const MAX_LENGTH: usize = 4096;
const MAX_DEPTH: usize = 20;

/// Node as `%#v` prints its decoded value.
pub(super) fn go_syntax(document: &Document<'_>, id: Id) -> String {
    let mut out = String::new();
    write(document, id, MAX_DEPTH, &mut out);
    out
}

fn write(document: &Document<'_>, id: Id, depth: usize, out: &mut String) {
    if depth == 0 || out.len() > MAX_LENGTH {
        out.push_str("...");
        return;
    }
    // Writing to a String cannot fail.
    match document.view(document.resolve(id)) {
        View::Null => out.push_str("interface {}(nil)"),
        View::Bool(is) => _ = write!(out, "{is}"),
        View::Int(int) => _ = write!(out, "{int}"),
        View::Uint(uint) => _ = write!(out, "{uint:#x}"),
        View::Float(float) => out.push_str(&general(float)),
        View::Str(text) => out.push_str(&quote(text)),
        View::Sequence(end) => {
            let mut next = document.resolve(id) + 1;
            out.push_str("[]interface {}{");
            while next < end && out.len() <= MAX_LENGTH {
                write(document, next, depth - 1, out);
                next = document.after(next);
                if next < end {
                    out.push_str(", ");
                }
            }
            out.push('}');
        }
        View::Mapping(end) => {
            let mut entries = BTreeMap::new();
            let mut next = document.resolve(id) + 1;
            while next < end && entries.len() < MAX_LENGTH {
                let value = document.after(next);
                let mut key = String::new();
                write(document, next, depth - 1, &mut key);
                entries.insert(key, value);
                next = document.after(value);
            }
            out.push_str("map[interface {}]interface {}{");
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if out.len() > MAX_LENGTH {
                    break;
                }
                let separator = if at > 0 { ", " } else { "" };
                _ = write!(out, "{separator}{key}:");
                write(document, value, depth - 1, out);
            }
            out.push('}');
        }
        View::Alias(_) | View::Cycle(_) | View::Fault(_) => out.push_str("..."),
    }
}
