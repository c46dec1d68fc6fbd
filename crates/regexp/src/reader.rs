//! Tokens of expressions: escapes, classes, counts and group names.

use std::sync::Arc;

use crate::MAX_COPIES;
use crate::class::{Class, Parts};
use crate::error::{Code, SyntaxError};
use crate::flags::Flags;
use crate::fold::add_folded;
use crate::runes::{MAX_RUNE, Runes};
use crate::unicode::{self, Named};

/// Reader of an expression from left to right.
pub(crate) struct Reader<'p> {
    pattern: &'p str,
    at: usize,
    /// Whether no `:]` follows. Searched once: `[[:[[:` is not searched from each of its positions.
    no_class_end: bool,
}

/// The counts of `{2,3}`.
pub(crate) struct Counts {
    min: u32,
    max: Option<u32>,
}

impl Counts {
    /// The minimum, if both counts are valid, and the maximum.
    pub fn bounds(&self) -> (Option<u32>, Option<u32>) {
        let valid = |count: u32| u64::from(count) <= MAX_COPIES;
        let fits = valid(self.min) && self.max.is_none_or(|max| valid(max) && self.min <= max);
        (fits.then_some(self.min), self.max)
    }
}

impl<'p> Reader<'p> {
    pub fn new(pattern: &'p str) -> Self {
        Reader { pattern, at: 0, no_class_end: false }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn rest(&self) -> &'p str {
        self.pattern.get(self.at..).unwrap_or_default()
    }

    /// Text from a position to the present one.
    pub fn since(&self, start: usize) -> &'p str {
        self.pattern.get(start..self.at).unwrap_or_default()
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    pub fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Skips ASCII characters.
    pub fn skip(&mut self, characters: usize) {
        self.at += characters;
    }

    pub fn take(&mut self, character: char) -> bool {
        let found = self.peek() == Some(character);
        if found {
            self.at += character.len_utf8();
        }
        found
    }

    fn error<T>(&self, code: Code, start: usize) -> Result<T, SyntaxError> {
        Err(SyntaxError::new(code, self.since(start)))
    }

    /// Parses `{2}`, `{2,}` or `{2,3}`; `None` without reading anything for other text.
    pub fn counts(&mut self) -> Option<Counts> {
        let inner = self.rest().strip_prefix('{')?;
        let (min, rest) = count(inner)?;
        let (max, rest) = match rest.strip_prefix(',') {
            None => (Some(min), rest),
            Some(rest) if rest.starts_with('}') => (None, rest),
            Some(rest) => {
                let (max, rest) = count(rest)?;
                (Some(max), rest)
            }
        };
        let rest = rest.strip_prefix('}')?;
        self.at = self.pattern.len() - rest.len();
        Some(Counts { min, max })
    }

    /// Literal text between `\Q` and `\E`, or the end.
    pub fn quoted(&mut self) -> &'p str {
        self.skip(2);
        let (quoted, rest) = self.rest().split_once("\\E").unwrap_or((self.rest(), ""));
        self.at = self.pattern.len() - rest.len();
        quoted
    }

    /// Parses `(?P<name>` or `(?<name>`. Returns whether it was one of them.
    pub fn take_group_name(&mut self) -> Result<bool, SyntaxError> {
        let rest = self.rest();
        let name = match (rest.strip_prefix("(?P<"), rest.strip_prefix("(?<")) {
            (Some(name), _) | (_, Some(name)) if !name.is_empty() => name,
            _ => return Ok(false),
        };
        let start = self.at;
        let Some((name, rest)) = name.split_once('>') else {
            return Err(SyntaxError::new(Code::InvalidNamedCapture, rest));
        };
        self.at = self.pattern.len() - rest.len();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return self.error(Code::InvalidNamedCapture, start);
        }
        Ok(true)
    }

    /// Parses an escape for a set: `\d`, `\pN`, `\p{Greek}`. `None` without reading anything for other text.
    pub fn class_escape(&mut self, flags: Flags) -> Result<Option<Arc<Runes>>, SyntaxError> {
        let mut characters = self.rest().chars();
        if characters.next() != Some('\\') {
            return Ok(None);
        }
        match characters.next() {
            Some(letter @ ('p' | 'P')) => {
                let (named, negated) = self.property(letter == 'P')?;
                Ok(Some(unicode::runes(named, flags.fold, negated)))
            }
            Some(letter) => Ok(unicode::perl(letter).map(|(named, negated)| {
                self.skip(2);
                unicode::runes(named, flags.fold, negated)
            })),
            None => Ok(None),
        }
    }

    fn property(&mut self, negated: bool) -> Result<(Named, bool), SyntaxError> {
        let start = self.at;
        let rest = self.rest();
        self.skip(2);
        let name = match self.next() {
            Some('{') => {
                let Some((name, rest)) = self.rest().split_once('}') else {
                    return Err(SyntaxError::new(Code::InvalidCharacterRange, rest));
                };
                self.at = self.pattern.len() - rest.len();
                name
            }
            _ => self.since(start + 2),
        };
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, !negated),
            None => (name, negated),
        };
        match unicode::property(name) {
            Some(named) => Ok((named, negated)),
            None => self.error(Code::InvalidCharacterRange, start),
        }
    }

    /// Parses an escape for one code point.
    pub fn escape(&mut self) -> Result<u32, SyntaxError> {
        let start = self.at;
        self.skip(1);
        let Some(character) = self.next() else {
            return Err(SyntaxError::new(Code::TrailingBackslash, ""));
        };
        let rune = match character {
            'a' => Some(0x07),
            'f' => Some(0x0C),
            'n' => Some(0x0A),
            'r' => Some(0x0D),
            't' => Some(0x09),
            'v' => Some(0x0B),
            'x' => self.hexadecimal(),
            '0' => Some(self.octal('0')),
            // A single digit would be a back-reference, which Go does not have.
            '1'..='7' if self.peek().is_some_and(|c| c.is_digit(8)) => Some(self.octal(character)),
            _ if character.is_ascii() && !character.is_ascii_alphanumeric() => {
                Some(character.into())
            }
            _ => None,
        };
        match rune {
            Some(rune) => Ok(rune),
            None => self.error(Code::InvalidEscape, start),
        }
    }

    fn octal(&mut self, first: char) -> u32 {
        let mut rune = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else { break };
            rune = rune * 8 + digit;
            self.skip(1);
        }
        rune
    }

    /// Code point behind `\x`: two digits, or any number of them in braces.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            let second = self.next()?;
            return Some(first.to_digit(16)? * 16 + second.to_digit(16)?);
        }
        let mut rune = None;
        loop {
            let character = self.next()?;
            if character == '}' {
                return rune;
            }
            let value = rune.unwrap_or(0) * 16 + character.to_digit(16)?;
            rune = Some(value).filter(|value| *value <= MAX_RUNE);
            rune?;
        }
    }

    /// Parses a class in brackets.
    pub fn class(&mut self, flags: Flags) -> Result<Class, SyntaxError> {
        let start = self.at;
        self.skip(1);
        let mut class = Parts { negated: self.take('^'), ..Parts::default() };
        let mut first = true;
        while first || self.peek() != Some(']') {
            first = false;
            if let Some(runes) = self.posix_class(flags)? {
                class.add(runes);
            } else if let Some(runes) = self.class_escape(flags)? {
                class.add(runes);
            } else {
                let (low, high) = self.range(start)?;
                class.ranges.push((low, high));
                if flags.fold {
                    add_folded(low, high, &mut class.ranges);
                }
            }
        }
        self.skip(1);
        Ok(class.class())
    }

    /// Parses `[:alpha:]` inside a class. Brackets without an end are characters of the class.
    fn posix_class(&mut self, flags: Flags) -> Result<Option<Arc<Runes>>, SyntaxError> {
        let start = self.at;
        let Some(inner) = self.rest().strip_prefix("[:").filter(|_| !self.no_class_end) else {
            return Ok(None);
        };
        let Some((name, rest)) = inner.split_once(":]") else {
            self.no_class_end = true;
            return Ok(None);
        };
        self.at = self.pattern.len() - rest.len();
        match unicode::posix(name) {
            Some((named, negated)) => Ok(Some(unicode::runes(named, flags.fold, negated))),
            None => self.error(Code::InvalidCharacterRange, start),
        }
    }

    fn range(&mut self, class: usize) -> Result<(u32, u32), SyntaxError> {
        let start = self.at;
        let low = self.class_character(class)?;
        let mut following = self.rest().chars();
        let is_range =
            following.next() == Some('-') && following.next().is_some_and(|next| next != ']');
        if !is_range {
            return Ok((low, low));
        }
        self.skip(1);
        let high = self.class_character(class)?;
        if high < low {
            return self.error(Code::InvalidCharacterRange, start);
        }
        Ok((low, high))
    }

    fn class_character(&mut self, class: usize) -> Result<u32, SyntaxError> {
        match self.peek() {
            None => self.error(Code::MissingBracket, class),
            Some('\\') => self.escape(),
            Some(character) => {
                self.next();
                Ok(character.into())
            }
        }
    }
}

/// A count without leading zeros, and the rest; one that is too large becomes `u32::MAX`.
fn count(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    if number.is_empty() || (number.len() > 1 && number.starts_with('0')) {
        return None;
    }
    Some((number.parse().unwrap_or(u32::MAX), rest))
}
