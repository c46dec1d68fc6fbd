//! Parser of label selectors.

use super::{LabelSelector, Operator, Requirement, check_key};
use crate::field_error::Path;
use crate::selector::MAX_SELECTOR_LENGTH;
use compact_str::CompactString;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Error of parsing a label selector, from text or from an API object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLabelSelectorError(String);

impl ParseLabelSelectorError {
    pub(super) fn new(message: String) -> Self {
        ParseLabelSelectorError(message)
    }
}

impl fmt::Display for ParseLabelSelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseLabelSelectorError {}

impl FromStr for LabelSelector {
    type Err = ParseLabelSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_SELECTOR_LENGTH {
            let message = format!("selector must be no more than {MAX_SELECTOR_LENGTH} bytes");
            return Err(ParseLabelSelectorError(message));
        }
        let mut parser = Parser { lexer: Lexer { rest: text }, next: Token::End };
        parser.next = parser.lexer.token();
        parser.selector().map_err(ParseLabelSelectorError)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Token<'a> {
    End,
    Symbol(&'a str),
    Identifier(&'a str),
}

impl<'a> Token<'a> {
    /// Text in messages.
    fn literal(self) -> &'a str {
        match self {
            Token::End => "",
            Token::Symbol(text) | Token::Identifier(text) => text,
        }
    }

    fn is(self, symbol: &str) -> bool {
        self == Token::Symbol(symbol)
    }
}

struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    fn token(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches(is_space);
        let length = match self.rest.as_bytes() {
            // The reference takes a zero byte for the end: of the text here, of a token below.
            [] | [0, ..] => return Token::End,
            [b'=' | b'!', b'=', ..] => 2,
            [b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<', ..] => 1,
            bytes => {
                let ends = |b: &u8| {
                    matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0)
                        || matches!(b, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
                };
                let length = bytes.iter().position(ends).unwrap_or(bytes.len());
                return Token::Identifier(self.split(length));
            }
        };
        Token::Symbol(self.split(length))
    }

    /// Takes the next token's text. Tokens end at ASCII bytes, so that characters stay whole.
    fn split(&mut self, length: usize) -> &'a str {
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest.strip_prefix('\0').unwrap_or(rest);
        token
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    next: Token<'a>,
}

impl<'a> Parser<'a> {
    fn take(&mut self) -> Token<'a> {
        let next = match self.next {
            Token::End => Token::End,
            _ => self.lexer.token(),
        };
        std::mem::replace(&mut self.next, next)
    }

    fn selector(&mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        loop {
            match self.next {
                Token::End => break,
                Token::Identifier(_) | Token::Symbol("!") => {}
                Token::Symbol(found) => {
                    return Err(format!(
                        "found '{found}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|e| format!("unable to parse requirement: {e}"))?);
            match self.take() {
                Token::End => break,
                Token::Symbol(",") => {
                    if !(matches!(self.next, Token::Identifier(_)) || self.next.is("!")) {
                        let found = self.next.literal();
                        return Err(format!("found '{found}', expected: identifier after ','"));
                    }
                }
                other => {
                    let found = other.literal();
                    return Err(format!("found '{found}', expected: ',' or 'end of string'"));
                }
            }
        }
        Ok(LabelSelector::new(requirements))
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.take();
        let absent = token.is("!");
        if absent {
            token = self.take();
        }
        let Token::Identifier(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.literal()));
        };
        if let Some(error) = check_key(key, &Path::NONE) {
            return Err(error.to_string());
        }
        let (operator, values) = if absent {
            (Operator::DoesNotExist, BTreeSet::new())
        } else if self.at_end_of_requirement() {
            (Operator::Exists, BTreeSet::new())
        } else {
            let operator = self.operator()?;
            let values = match operator {
                Operator::In | Operator::NotIn => self.values()?,
                _ => BTreeSet::from([self.value()?]),
            };
            (operator, values)
        };
        let values = values.into_iter().map(CompactString::from).collect();
        Requirement::new(key, operator, values, &Path::NONE)
            .map_err(|errors| ParseLabelSelectorError::from_errors(errors).0)
    }

    fn at_end_of_requirement(&self) -> bool {
        self.next == Token::End || self.next.is(",")
    }

    fn operator(&mut self) -> Result<Operator, String> {
        // `in` and `notin` are operators only here; elsewhere they are keys and values.
        let token = self.take();
        Ok(match token {
            Token::Identifier("in") => Operator::In,
            Token::Identifier("notin") => Operator::NotIn,
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            _ => {
                let found = token.literal();
                return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        })
    }

    fn value(&mut self) -> Result<&'a str, String> {
        if self.at_end_of_requirement() {
            return Ok("");
        }
        match self.take() {
            Token::Identifier(value) => Ok(value),
            other => Err(format!("found '{}', expected: identifier", other.literal())),
        }
    }

    /// Parses a list in parentheses. Missing values count as one empty value.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, String> {
        let open = self.take();
        if !open.is("(") {
            return Err(format!("found '{}' expected: '('", open.literal()));
        }
        if self.next.is(")") {
            self.take();
            return Ok(BTreeSet::from([""]));
        }
        if !(matches!(self.next, Token::Identifier(_)) || self.next.is(",")) {
            let found = self.next.literal();
            return Err(format!("found '{found}', expected: ',', ')' or identifier"));
        }
        let mut values = BTreeSet::new();
        loop {
            match self.take() {
                Token::Identifier(value) => {
                    values.insert(value);
                    if !(self.next.is(",") || self.next.is(")")) {
                        let found = self.next.literal();
                        return Err(format!("found '{found}', expected: ',' or ')'"));
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() || self.next.is(",") || self.next.is(")") {
                        values.insert("");
                    }
                }
                other => {
                    let found = other.literal();
                    return Err(format!("found '{found}', expected: ',', or identifier"));
                }
            }
            if self.next.is(")") {
                self.take();
                return Ok(values);
            }
        }
    }
}
