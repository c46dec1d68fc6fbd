//! Field paths (`fieldPath`, `selectableFields`) in JSON path syntax: `.spec.tags['a.b']`.

use super::props::Props;

/// Parsed path that fits a schema.
#[derive(Debug)]
pub(crate) struct FieldPath<'s> {
    /// Path as errors print it: `spec.tags[a.b]`.
    pub text: String,
    /// First name of the path.
    pub root: String,
    /// Schema at the end of the path, if there is one.
    pub schema: Option<Props<'s>>,
}

/// Parses a path; `brackets` says whether they are allowed.
pub(crate) fn parse<'s>(
    path: &str,
    schema: Props<'s>,
    brackets: bool,
) -> Result<FieldPath<'s>, String> {
    const NO_FIELD: &str = "does not refer to a valid field";
    const UNEXPECTED_END: &str = "unexpected end of JSON path";
    let mut found = FieldPath { text: String::new(), root: String::new(), schema: Some(schema) };
    let mut tokens = Tokens(path);
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or(UNEXPECTED_END)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let Some(inner) = inner else {
                    return Err(format!("expected single quoted string but got {quoted}"));
                };
                unescape(inner)?
            }
            "." => tokens.next().ok_or(UNEXPECTED_END)?.to_owned(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        let at = found.schema.ok_or(NO_FIELD)?;
        let is_first = found.text.is_empty();
        if at.has_properties() {
            if !is_first {
                found.text.push('.');
            }
            found.text.push_str(&name);
            found.schema = Some(at.property(&name).ok_or(NO_FIELD)?);
        } else if at.additional().is_some() {
            found.text.push_str(&format!("[{name}]"));
            found.schema = at.additional_schema();
        } else {
            return Err(NO_FIELD.to_owned());
        }
        if is_first {
            found.root = name;
        }
        if token == "[" {
            match tokens.next() {
                Some("]") => {}
                Some(other) => return Err(format!("expected ] but got {other}")),
                None => return Err(UNEXPECTED_END.to_owned()),
            }
        }
    }
    Ok(found)
}

/// Tokens of a path: dots, brackets, and the texts between them; a quoted string is one token.
struct Tokens<'p>(&'p str);

impl<'p> Iterator for Tokens<'p> {
    type Item = &'p str;

    fn next(&mut self) -> Option<&'p str> {
        let bytes = self.0.as_bytes();
        let end = match bytes.first()? {
            b'\'' => {
                let closing = (1..bytes.len())
                    .find(|at| bytes.get(*at) == Some(&b'\'') && bytes.get(at - 1) != Some(&b'\\'));
                closing.map_or(bytes.len(), |at| at + 1)
            }
            b'.' | b'[' | b']' => 1,
            _ => self.0.find(['.', '[', ']']).unwrap_or(bytes.len()),
        };
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match characters.next() {
            Some('a') => '\x07',
            Some('b') => '\x08',
            Some('f') => '\x0c',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\x0b',
            Some('\'') => '\'',
            Some('\\') => '\\',
            Some(other) => {
                return Err(format!("invalid string literal: invalid escape char \\{other}"));
            }
            None => '\\',
        });
    }
    Ok(out)
}
