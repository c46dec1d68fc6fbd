//! YAML scanner by the rules of libyaml, which the reference follows exactly.
//!
//! The difficulty of YAML is that `a` may turn out to be a key only at the `:` behind it. A possible start of a key is
//! remembered ([`SimpleKey`]), one per flow level, and the tokens from there on wait in the queue until it is decided;
//! a key ends on its line and within 1024 characters.

use std::collections::VecDeque;

use super::Error;

/// Limit on the nesting of flow collections, and of block collections.
const MAX_LEVELS: usize = 10_000;

/// Limit on the distance between a key's start and its `:`.
const MAX_KEY_LENGTH: u32 = 1024;

#[derive(Debug)]
pub(super) enum Token<'a> {
    StreamEnd,
    Version {
        major: u8,
        minor: u8,
    },
    TagDirective {
        handle: &'a str,
        prefix: &'a str,
    },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'a str),
    Anchor(&'a str),
    /// Tag as written; [`super::tag::split`] splits it.
    Tag(&'a str),
    Scalar {
        text: Text,
        plain: bool,
    },
}

/// A token and its line, counted from 0.
#[derive(Debug)]
pub(super) struct Lexeme<'a> {
    pub token: Token<'a>,
    pub line: u32,
}

/// Text of a scalar: a slice of the source, or of the scratch space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub in_scratch: bool,
    pub start: u32,
    pub len: u32,
}

/// Possible start of a key.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    /// Whether it must be a key, because it starts a line of a block mapping.
    required: bool,
    /// Whether the tokens from `token` on wait for it.
    holds: bool,
    token: usize,
    line: u32,
    column: u32,
}

#[derive(Debug)]
pub(super) struct Scanner<'a> {
    pub(super) source: &'a str,
    pub(super) scratch: String,
    pub(super) at: usize,
    pub(super) line: u32,
    pub(super) column: u32,
    /// Column of the innermost block collection, -1 for none.
    pub(super) indent: i64,
    /// Whether a key may start here.
    pub(super) key_allowed: bool,
    unreadable: Option<&'static str>,
    queue: VecDeque<Lexeme<'a>>,
    /// Whether the token at the front is known not to wait.
    ready: bool,
    taken: usize,
    /// One for each flow level, and one for the block level.
    keys: Vec<SimpleKey>,
    /// First level whose key may hold tokens back.
    level: usize,
    indents: Vec<i64>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(source: &'a str, unreadable: Option<&'static str>) -> Self {
        Scanner {
            source,
            scratch: String::new(),
            at: 0,
            line: 0,
            column: 0,
            indent: -1,
            key_allowed: true,
            unreadable,
            queue: VecDeque::new(),
            ready: false,
            taken: 0,
            keys: vec![SimpleKey::default()],
            level: 0,
            indents: Vec::new(),
        }
    }

    /// Next token.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<&Lexeme<'a>, Error> {
        if !self.ready {
            self.fetch_more()?;
        }
        self.queue.front().ok_or_else(|| Error::new("unknown problem parsing YAML content"))
    }

    fn fetch_more(&mut self) -> Result<(), Error> {
        while self.queue.is_empty() || self.front_may_be_key()? {
            let fetched = self.fetch();
            // The apparent end may be the piece that cannot be read.
            match self.unreadable {
                Some(problem) if self.at >= self.source.len() => return Err(Error::new(problem)),
                _ => fetched?,
            }
        }
        self.ready = true;
        Ok(())
    }

    /// Takes the token that [`Scanner::peek`] returned.
    pub(super) fn take(&mut self) -> Option<Lexeme<'a>> {
        self.taken += 1;
        self.ready = false;
        self.queue.pop_front()
    }

    pub(super) fn text(&self, text: Text) -> &str {
        let of = if text.in_scratch { &self.scratch } else { self.source };
        of.get(text.start as usize..(text.start + text.len) as usize).unwrap_or_default()
    }

    /// Stores bytes as text; each invalid byte becomes U+FFFD.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Text {
        let start = self.scratch.len();
        for chunk in bytes.utf8_chunks() {
            self.scratch.push_str(chunk.valid());
            self.scratch.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        let len = self.scratch.len() - start;
        Text { in_scratch: true, start: start as u32, len: len as u32 }
    }

    pub(super) fn in_flow(&self) -> bool {
        self.keys.len() > 1
    }

    pub(super) fn error(&self, problem: &str) -> Error {
        Error::on_line(if self.line == 0 { 0 } else { self.line + 1 }, problem)
    }

    fn fetch(&mut self) -> Result<(), Error> {
        self.skip_to_token();
        self.unroll_indent(i64::from(self.column));
        let next_ends = self.is_blank_or_end(1);
        match self.byte(0) {
            0 => self.fetch_stream_end(),
            b'%' if self.column == 0 => self.fetch_directive(),
            b'-' if self.at_marker(b"---") => self.fetch_marker(Token::DocumentStart),
            b'.' if self.at_marker(b"...") => self.fetch_marker(Token::DocumentEnd),
            b'[' => self.fetch_flow_start(Token::FlowSequenceStart),
            b'{' => self.fetch_flow_start(Token::FlowMappingStart),
            b']' => self.fetch_flow_end(Token::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Token::FlowMappingEnd),
            b',' => {
                self.drop_key()?;
                self.key_allowed = true;
                self.push_indicator(Token::FlowEntry);
                Ok(())
            }
            b'-' if next_ends => self.fetch_block_entry(),
            b'?' if self.in_flow() || next_ends => self.fetch_key(),
            b':' if self.in_flow() || next_ends => self.fetch_value(),
            indicator @ (b'*' | b'&') => self.fetch_anchor(indicator == b'*'),
            b'!' => {
                self.save_key()?;
                self.key_allowed = false;
                let line = self.line;
                let token = self.scan_tag()?;
                self.push(token, line);
                Ok(())
            }
            indicator @ (b'|' | b'>') if !self.in_flow() => {
                self.drop_key()?;
                self.key_allowed = true;
                let line = self.line;
                let text = self.block_scalar(indicator == b'|')?;
                self.push(Token::Scalar { text, plain: false }, line);
                Ok(())
            }
            quote @ (b'\'' | b'"') => self.fetch_scalar(false, |s| s.quoted_scalar(quote)),
            b' ' | b'\t' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => Err(self.no_token()),
            _ => self.fetch_scalar(true, Self::plain_scalar),
        }
    }

    fn no_token(&self) -> Error {
        self.error("found character that cannot start any token")
    }

    /// Skips blanks, comments and line breaks.
    fn skip_to_token(&mut self) {
        if matches!(self.byte(0), b'!'..=b'"' | b'$'..=b'~') {
            return;
        }
        if self.at == 0 && self.source.starts_with('\u{feff}') {
            self.skip(1);
        }
        loop {
            // A tab is no indentation.
            let tabs = self.in_flow() || !self.key_allowed;
            while self.byte(0) == b' ' || tabs && self.byte(0) == b'\t' {
                self.skip(1);
            }
            self.skip_comment();
            if self.break_len(0) == 0 {
                return;
            }
            self.skip_break();
            if !self.in_flow() {
                self.key_allowed = true;
            }
        }
    }

    fn fetch_stream_end(&mut self) -> Result<(), Error> {
        if self.column != 0 {
            self.column = 0;
            self.line += 1;
        }
        self.unroll_indent(-1);
        self.drop_key()?;
        self.key_allowed = false;
        self.push(Token::StreamEnd, self.line);
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<(), Error> {
        self.unroll_indent(-1);
        self.drop_key()?;
        self.key_allowed = false;
        let line = self.line;
        let token = self.scan_directive()?;
        self.push(token, line);
        Ok(())
    }

    fn fetch_marker(&mut self, token: Token<'a>) -> Result<(), Error> {
        self.unroll_indent(-1);
        self.drop_key()?;
        self.key_allowed = false;
        self.skip(2);
        self.push_indicator(token);
        Ok(())
    }

    fn fetch_flow_start(&mut self, token: Token<'a>) -> Result<(), Error> {
        self.save_key()?;
        self.keys.push(SimpleKey { token: self.next_token(), ..SimpleKey::default() });
        if self.keys.len() > MAX_LEVELS + 1 {
            return Err(self.too_deep());
        }
        self.key_allowed = true;
        self.push_indicator(token);
        Ok(())
    }

    fn fetch_flow_end(&mut self, token: Token<'a>) -> Result<(), Error> {
        self.drop_key()?;
        if self.in_flow()
            && let Some(inner) = self.keys.pop()
            && let Some(outer) = self.keys.last_mut()
            && outer.token == inner.token
        {
            // The reference forgets that an empty collection may be a key, and releases it.
            outer.holds = false;
        }
        self.level = self.level.min(self.keys.len() - 1);
        self.key_allowed = false;
        self.push_indicator(token);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Error> {
        if !self.in_flow() {
            if !self.key_allowed {
                let problem = "block sequence entries are not allowed in this context";
                return Err(self.error(problem));
            }
            self.roll_indent(self.column, None, Token::BlockSequenceStart, self.line)?;
        }
        self.drop_key()?;
        self.key_allowed = true;
        self.push_indicator(Token::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Error> {
        if !self.in_flow() {
            if !self.key_allowed {
                return Err(self.error("mapping keys are not allowed in this context"));
            }
            self.roll_indent(self.column, None, Token::BlockMappingStart, self.line)?;
        }
        self.drop_key()?;
        self.key_allowed = !self.in_flow();
        self.push_indicator(Token::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        let level = self.keys.len() - 1;
        if self.key_is_valid(level)? {
            let key = self.keys[level];
            self.insert(key.token, Token::Key, key.line);
            self.roll_indent(key.column, Some(key.token), Token::BlockMappingStart, key.line)?;
            self.keys[level].possible = false;
            self.keys[level].holds = false;
            self.key_allowed = false;
        } else {
            if !self.in_flow() {
                if !self.key_allowed {
                    return Err(self.error("mapping values are not allowed in this context"));
                }
                self.roll_indent(self.column, None, Token::BlockMappingStart, self.line)?;
            }
            self.key_allowed = !self.in_flow();
        }
        self.push_indicator(Token::Value);
        Ok(())
    }

    fn fetch_anchor(&mut self, alias: bool) -> Result<(), Error> {
        self.save_key()?;
        self.key_allowed = false;
        let line = self.line;
        self.skip(1);
        let name = self.scan_word();
        let ended = self.is_blank_or_end(0)
            || matches!(self.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ended {
            return Err(self.error("did not find expected alphabetic or numeric character"));
        }
        self.push(if alias { Token::Alias(name) } else { Token::Anchor(name) }, line);
        Ok(())
    }

    fn fetch_scalar(
        &mut self,
        plain: bool,
        scan: impl FnOnce(&mut Self) -> Result<Text, Error>,
    ) -> Result<(), Error> {
        self.save_key()?;
        self.key_allowed = false;
        let line = self.line;
        let text = scan(self)?;
        self.push(Token::Scalar { text, plain }, line);
        Ok(())
    }

    // Simple keys.

    /// Whether the token at the front waits because a key may have started there.
    fn front_may_be_key(&mut self) -> Result<bool, Error> {
        // The tokens of the levels' keys increase with the level, and taken tokens are done.
        while self.level + 1 < self.keys.len() && self.keys[self.level].token < self.taken {
            self.level += 1;
        }
        let key = self.keys[self.level];
        if key.token == self.taken && key.holds { self.key_is_valid(self.level) } else { Ok(false) }
    }

    fn key_is_valid(&mut self, level: usize) -> Result<bool, Error> {
        let key = self.keys[level];
        if !key.possible {
            return Ok(false);
        }
        if key.line < self.line || key.column + MAX_KEY_LENGTH < self.column {
            if key.required {
                return Err(self.error("could not find expected ':'"));
            }
            self.keys[level].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_key(&mut self) -> Result<(), Error> {
        if self.key_allowed {
            self.drop_key()?;
            let key = SimpleKey {
                possible: true,
                required: !self.in_flow() && self.indent == i64::from(self.column),
                holds: true,
                token: self.next_token(),
                line: self.line,
                column: self.column,
            };
            if let Some(last) = self.keys.last_mut() {
                *last = key;
            }
        }
        Ok(())
    }

    fn drop_key(&mut self) -> Result<(), Error> {
        let Some(key) = self.keys.last_mut().filter(|key| key.possible) else { return Ok(()) };
        key.possible = false;
        key.holds = false;
        if key.required { Err(self.error("could not find expected ':'")) } else { Ok(()) }
    }

    // Indentation.

    fn roll_indent(
        &mut self,
        column: u32,
        before: Option<usize>,
        token: Token<'a>,
        line: u32,
    ) -> Result<(), Error> {
        let column = i64::from(column);
        if !self.in_flow() && self.indent < column {
            self.indents.push(self.indent);
            self.indent = column;
            if self.indents.len() > MAX_LEVELS {
                return Err(self.too_deep());
            }
            self.insert(before.unwrap_or(usize::MAX), token, line);
        }
        Ok(())
    }

    fn unroll_indent(&mut self, column: i64) {
        if self.in_flow() {
            return;
        }
        while self.indent > column {
            self.push(Token::BlockEnd, self.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn too_deep(&self) -> Error {
        self.error(&format!("exceeded max depth of {MAX_LEVELS}"))
    }

    // The queue.

    /// Number of the next token.
    fn next_token(&self) -> usize {
        self.taken + self.queue.len()
    }

    fn push(&mut self, token: Token<'a>, line: u32) {
        self.queue.push_back(Lexeme { token, line });
    }

    /// Scans one character as a token.
    fn push_indicator(&mut self, token: Token<'a>) {
        self.push(token, self.line);
        self.at += 1;
        self.column += 1;
    }

    /// Inserts a token before another, or at the end if that one is taken already.
    fn insert(&mut self, before: usize, token: Token<'a>, line: u32) {
        let lexeme = Lexeme { token, line };
        match before.checked_sub(self.taken) {
            Some(at) if at < self.queue.len() => self.queue.insert(at, lexeme),
            _ => self.queue.push_back(lexeme),
        }
    }
}
