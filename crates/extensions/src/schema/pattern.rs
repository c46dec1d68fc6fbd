//! Regular expressions of a schema.

use std::collections::HashMap;

use kevel_regexp::{Regexp, SyntaxError};

/// Regular expressions of one schema, each compiled once.
#[derive(Debug, Default)]
pub(crate) struct Patterns(HashMap<Box<str>, Result<Regexp, SyntaxError>>);

impl Patterns {
    /// Compiled expression, or its syntax error in Go's words.
    pub fn compile(&mut self, text: &str) -> Result<Regexp, SyntaxError> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let compiled = Regexp::new(text);
        self.0.insert(text.into(), compiled.clone());
        compiled
    }
}
