//! Lexer, and names of tokens in messages.

use crate::source::{Issues, Source};

/// Kind of a token, in the order of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Token {
    Eof,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Exclamation,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    EscapedIdentifier,
}

impl Token {
    /// Name in messages.
    pub fn name(self) -> &'static str {
        use Token::*;
        match self {
            Eof => "<EOF>",
            Equals => "'=='",
            NotEquals => "'!='",
            In => "'in'",
            Less => "'<'",
            LessEquals => "'<='",
            GreaterEquals => "'>='",
            Greater => "'>'",
            And => "'&&'",
            Or => "'||'",
            LeftBracket => "'['",
            RightBracket => "']'",
            LeftBrace => "'{'",
            RightBrace => "'}'",
            LeftParen => "'('",
            RightParen => "')'",
            Dot => "'.'",
            Comma => "','",
            Minus => "'-'",
            Exclamation => "'!'",
            Question => "'?'",
            Colon => "':'",
            Plus => "'+'",
            Star => "'*'",
            Slash => "'/'",
            Percent => "'%'",
            True => "'true'",
            False => "'false'",
            Null => "'null'",
            Float => "NUM_FLOAT",
            Int => "NUM_INT",
            Uint => "NUM_UINT",
            String => "STRING",
            Bytes => "BYTES",
            Identifier => "IDENTIFIER",
            EscapedIdentifier => "ESC_IDENTIFIER",
        }
    }

    /// Expected tokens in messages: `expecting {'[', …}` or `expecting ':'`.
    pub fn expected(set: &[Token]) -> String {
        match set {
            [one] => one.name().to_owned(),
            _ => {
                let mut set = set.to_vec();
                set.sort_unstable();
                let names: Vec<_> = set.into_iter().map(Token::name).collect();
                format!("{{{}}}", names.join(", "))
            }
        }
    }
}

/// A token with its position, in characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub token: Token,
    pub start: u32,
    pub end: u32,
}

/// Splits a text into tokens. Characters that belong to no token are reported and skipped; their positions are returned
/// too.
pub(crate) fn tokenize(source: &Source, issues: &mut Issues) -> (Vec<Lexeme>, Vec<(u32, u32)>) {
    let mut lexer = Lexer { text: &source.characters, at: 0 };
    let (mut lexemes, mut unread) = (Vec::new(), Vec::new());
    loop {
        lexer.skip_hidden();
        let start = lexer.at;
        if lexer.text.is_empty() {
            lexemes.push(Lexeme { token: Token::Eof, start: start as u32, end: start as u32 });
            return (lexemes, unread);
        }
        match lexer.next_token() {
            Ok((token, len)) => {
                lexer.advance(len);
                let end = lexer.at as u32;
                lexemes.push(Lexeme { token, start: start as u32, end });
            }
            Err(len) => {
                let text: String = lexer.text.iter().take(len).collect();
                let location = source.location(start as u32);
                let message = format!("Syntax error: token recognition error at: '{text}'");
                issues.report(location, message);
                lexer.advance(len);
                unread.push((start as u32, lexer.at as u32));
            }
        }
    }
}

struct Lexer<'s> {
    /// Rest of the text.
    text: &'s [char],
    at: usize,
}

impl Lexer<'_> {
    fn advance(&mut self, len: usize) {
        let len = len.min(self.text.len());
        self.text = &self.text[len..];
        self.at += len;
    }

    fn peek(&self, offset: usize) -> Option<char> {
        self.text.get(offset).copied()
    }

    /// Skips white space and comments.
    fn skip_hidden(&mut self) {
        loop {
            let space = count(self.text, |c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}'));
            self.advance(space);
            if !self.text.starts_with(&['/', '/']) {
                return;
            }
            self.advance(count(self.text, |c| c != '\n'));
        }
    }

    /// Token at the start of the text and its length; the error is the length of the text that is no token.
    fn next_token(&self) -> Result<(Token, usize), usize> {
        use Token::*;
        let Some(first) = self.peek(0) else { return Ok((Eof, 0)) };
        let double = |second, token| match self.peek(1) {
            Some(c) if c == second => Ok((token, 2)),
            Some(_) => Err(2),
            None => Err(1),
        };
        let or_equals = |with, without| match self.peek(1) {
            Some('=') => Ok((with, 2)),
            _ => Ok((without, 1)),
        };
        match first {
            '=' => double('=', Equals),
            '&' => double('&', And),
            '|' => double('|', Or),
            '!' => or_equals(NotEquals, Exclamation),
            '<' => or_equals(LessEquals, Less),
            '>' => or_equals(GreaterEquals, Greater),
            '[' => Ok((LeftBracket, 1)),
            ']' => Ok((RightBracket, 1)),
            '{' => Ok((LeftBrace, 1)),
            '}' => Ok((RightBrace, 1)),
            '(' => Ok((LeftParen, 1)),
            ')' => Ok((RightParen, 1)),
            ',' => Ok((Comma, 1)),
            '-' => Ok((Minus, 1)),
            '?' => Ok((Question, 1)),
            ':' => Ok((Colon, 1)),
            '+' => Ok((Plus, 1)),
            '*' => Ok((Star, 1)),
            '/' => Ok((Slash, 1)),
            '%' => Ok((Percent, 1)),
            '.' if self.peek(1).is_some_and(|c| c.is_ascii_digit()) => Ok((Float, self.number().1)),
            '.' => Ok((Dot, 1)),
            '`' => self.escaped_identifier(),
            '0'..='9' => Ok(self.number()),
            '"' | '\'' => self.string(0, false).map(|len| (String, len)),
            'A'..='Z' | 'a'..='z' | '_' => Ok(self.word()),
            _ => Err(1),
        }
    }

    fn escaped_identifier(&self) -> Result<(Token, usize), usize> {
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        let len = 1 + count(&self.text[1..], allowed);
        match self.peek(len) {
            Some('`') if len > 1 => Ok((Token::EscapedIdentifier, len + 1)),
            Some(_) => Err(len + 1),
            None => Err(len),
        }
    }

    /// Lexes a word: a keyword, an identifier, or the prefix of a string.
    fn word(&self) -> (Token, usize) {
        let prefix = |c: Option<char>, of: &str| c.is_some_and(|c| of.contains(c));
        let quote = |c: Option<char>| matches!(c, Some('"' | '\''));
        let (first, second, third) = (self.peek(0), self.peek(1), self.peek(2));
        let string = if prefix(first, "rR") && quote(second) {
            Some((Token::String, self.string(1, true)))
        } else if prefix(first, "bB") && quote(second) {
            Some((Token::Bytes, self.string(1, false)))
        } else if prefix(first, "bB") && prefix(second, "rR") && quote(third) {
            Some((Token::Bytes, self.string(2, true)))
        } else {
            None
        };
        if let Some((token, Ok(len))) = string {
            return (token, len);
        }
        let len = count(self.text, |c| c.is_ascii_alphanumeric() || c == '_');
        let word: String = self.text.iter().take(len).collect();
        let token = match word.as_str() {
            "in" => Token::In,
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            _ => Token::Identifier,
        };
        (token, len)
    }

    fn number(&self) -> (Token, usize) {
        let digits =
            |from: usize| count(self.text.get(from..).unwrap_or_default(), |c| c.is_ascii_digit());
        if self.peek(0) == Some('0') && self.peek(1) == Some('x') {
            let hex = count(&self.text[2..], |c| c.is_ascii_hexdigit());
            if hex > 0 {
                return self.integer(2 + hex);
            }
        }
        let mut len = digits(0);
        let mut float = false;
        if self.peek(len) == Some('.') && digits(len + 1) > 0 {
            len += 1 + digits(len + 1);
            float = true;
        }
        if matches!(self.peek(len), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(len + 1), Some('+' | '-')));
            let exponent = digits(len + 1 + sign);
            if exponent > 0 {
                len += 1 + sign + exponent;
                float = true;
            }
        }
        if float { (Token::Float, len) } else { self.integer(len) }
    }

    fn integer(&self, len: usize) -> (Token, usize) {
        match self.peek(len) {
            Some('u' | 'U') => (Token::Uint, len + 1),
            _ => (Token::Int, len),
        }
    }

    /// Length of a string whose quotes start at `from`.
    fn string(&self, from: usize, raw: bool) -> Result<usize, usize> {
        let text = self.text.get(from..).unwrap_or_default();
        let Some(quote) = text.first().copied() else { return Err(from) };
        let len = if text.starts_with(&[quote; 3]) {
            // Without three closing quotes, it is an empty string followed by other tokens.
            long_string(text, quote, raw).or(Ok(2))
        } else {
            short_string(text, quote, raw)
        };
        len.map(|len| from + len).map_err(|len| from + len)
    }
}

fn long_string(text: &[char], quote: char, raw: bool) -> Result<usize, usize> {
    let mut at = 3;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(&[quote; 3]) {
            return Ok(at + 3);
        }
        at += if raw { 1 } else { character(rest).map_err(|len| at + len)? };
    }
    Err(at)
}

fn short_string(text: &[char], quote: char, raw: bool) -> Result<usize, usize> {
    let mut at = 1;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        match rest[0] {
            c if c == quote => return Ok(at + 1),
            '\n' | '\r' => return Err(at + 1),
            _ => at += if raw { 1 } else { character(rest).map_err(|len| at + len)? },
        }
    }
    Err(at)
}

/// Length of a character or escape sequence.
fn character(text: &[char]) -> Result<usize, usize> {
    if text.first() != Some(&'\\') {
        return Ok(1);
    }
    let Some(kind) = text.get(1) else { return Err(1) };
    let (digits, radix) = match kind {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => (0, 16),
        'x' | 'X' => (2, 16),
        'u' => (4, 16),
        'U' => (8, 16),
        '0'..='3' => (2, 8),
        _ => return Err(2),
    };
    match (2..2 + digits).find(|i| !text.get(*i).is_some_and(|c| c.is_digit(radix))) {
        None => Ok(2 + digits),
        Some(bad) => Err((bad + 1).min(text.len())),
    }
}

fn count(text: &[char], accept: impl Fn(char) -> bool) -> usize {
    text.iter().take_while(|c| accept(**c)).count()
}
