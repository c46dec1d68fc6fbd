//! Regular expressions of a schema.

use std::collections::HashMap;

use regex::Regex;

/// What one expression is tried to be compiled within, in bytes: most are small.
const SIZES: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 10 << 20];
/// What all expressions of a schema may take together.
const ALL: usize = 128 << 20;

/// The expressions of one schema, each compiled once.
#[derive(Debug)]
pub(crate) struct Patterns {
    left: usize,
    known: HashMap<Box<str>, Result<Regex, String>>,
}

impl Default for Patterns {
    fn default() -> Self {
        Patterns { left: ALL, known: HashMap::new() }
    }
}

impl Patterns {
    /// The expression, or what is wrong with it in Go's words.
    pub fn compile(&mut self, text: &str) -> Result<Regex, String> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let too_large = format!("error parsing regexp: expression too large: `{text}`");
        let mut compiled = Err(too_large.clone());
        for size in SIZES {
            // What was tried in vain took its time, too.
            let Some(left) = self.left.checked_sub(size) else { break };
            self.left = left;
            compiled = kevel_cel::compile_regex_within(text, size);
            if compiled.as_ref().err() != Some(&too_large) {
                break;
            }
        }
        self.known.insert(text.into(), compiled.clone());
        compiled
    }
}
