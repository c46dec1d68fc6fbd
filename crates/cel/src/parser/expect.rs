//! Consumption of tokens and recovery from syntax errors. Messages and recovery are those of ANTLR, the parser
//! generator of the reference.

use super::token::{Lexeme, Token};
use super::{Abort, Node, Parsed, Parser};
use crate::ast::{Expr, ExprKind};

/// Tokens that may start an expression.
pub(super) const START: &[Token] = &[
    Token::LeftBracket,
    Token::LeftBrace,
    Token::LeftParen,
    Token::Dot,
    Token::Minus,
    Token::Exclamation,
    Token::True,
    Token::False,
    Token::Null,
    Token::Float,
    Token::Int,
    Token::Uint,
    Token::String,
    Token::Bytes,
    Token::Identifier,
];

/// Tokens that may follow an operand, besides those that may follow the enclosing expression.
pub(super) const OPERATORS: &[Token] = &[
    Token::Equals,
    Token::NotEquals,
    Token::In,
    Token::Less,
    Token::LessEquals,
    Token::GreaterEquals,
    Token::Greater,
    Token::And,
    Token::Or,
    Token::LeftBracket,
    Token::Dot,
    Token::Minus,
    Token::Question,
    Token::Plus,
    Token::Star,
    Token::Slash,
    Token::Percent,
];

impl Parser<'_> {
    pub(super) fn peek(&self) -> Lexeme {
        self.lexeme(self.at)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Token {
        self.lexeme(self.at + ahead).token
    }

    /// Lexeme by index; the end of the text follows all others.
    pub(super) fn lexeme(&self, index: usize) -> Lexeme {
        let end = Lexeme { token: Token::Eof, start: 0, end: 0 };
        self.lexemes.get(index).or(self.lexemes.last()).copied().unwrap_or(end)
    }

    pub(super) fn next(&mut self) -> Lexeme {
        kevel_compute::charge(1);
        let lexeme = self.peek();
        self.at = (self.at + 1).min(self.lexemes.len());
        self.recovering = false;
        lexeme
    }

    pub(super) fn accept(&mut self, token: Token) -> Option<Lexeme> {
        (self.peek().token == token).then(|| self.next())
    }

    pub(super) fn slice(&self, lexeme: Lexeme) -> &[char] {
        self.source.characters.get(lexeme.start as usize..lexeme.end as usize).unwrap_or_default()
    }

    pub(super) fn text(&self, lexeme: Lexeme) -> String {
        match lexeme.token {
            Token::Eof => "<EOF>".to_owned(),
            _ => self.slice(lexeme).iter().collect(),
        }
    }

    /// Consumes a required token. One extra token is skipped, and a missing one is made up if the token here may follow
    /// it; either is reported, and parsing continues.
    pub(super) fn expect(&mut self, token: Token, followers: &[Token]) -> Result<Lexeme, Abort> {
        let here = self.peek();
        if here.token == token {
            return Ok(self.next());
        }
        let text = self.text(here);
        let expected = token.name();
        if self.peek_at(1) == token && here.token != Token::Eof {
            self.syntax_error(here, format!("extraneous input '{text}' expecting {expected}"));
            self.next();
            return Ok(self.next());
        }
        if followers.contains(&here.token) {
            self.syntax_error(here, format!("missing {expected} at '{text}'"));
            return Ok(here);
        }
        self.syntax_error(here, format!("mismatched input '{text}' expecting {expected}"));
        Err(Abort::Syntax)
    }

    /// Consumes a token after which operators may follow.
    pub(super) fn expect_after_operand(&mut self, token: Token) -> Result<Lexeme, Abort> {
        let outer = self.followers.last().copied().unwrap_or_default();
        self.expect(token, &with(OPERATORS, outer))
    }

    /// Checks that the next token is in the set; one extra token is skipped.
    pub(super) fn expect_start(&mut self, set: &[Token]) -> Result<(), Abort> {
        let here = self.peek();
        if set.contains(&here.token) {
            return Ok(());
        }
        let text = self.text(here);
        let expected = Token::expected(set);
        if set.contains(&self.peek_at(1)) && here.token != Token::Eof && !self.recovering {
            self.syntax_error(here, format!("extraneous input '{text}' expecting {expected}"));
            self.next();
            return Ok(());
        }
        self.syntax_error(here, format!("mismatched input '{text}' expecting {expected}"));
        Err(Abort::Syntax)
    }

    /// Recovers from a syntax error: skips to a token that may follow an operand, or any of the enclosing expressions.
    pub(super) fn or_recover(&mut self, parsed: Parsed, levels: usize) -> Parsed {
        let Err(Abort::Syntax) = parsed else { return parsed };
        self.followers.truncate(levels);
        while !self.may_follow(self.peek().token) {
            self.at += 1;
        }
        let id = self.id(self.peek().start);
        Ok(Node { expr: Expr { id, kind: ExprKind::Unspecified }, nesting: 0 })
    }

    /// Whether a token may follow an operand, or any of the enclosing expressions.
    fn may_follow(&self, token: Token) -> bool {
        OPERATORS.contains(&token) || self.followers.iter().any(|level| level.contains(&token))
    }

    /// Skips to a token in the set or one that may follow; true if it is in the set.
    pub(super) fn skip_to(&mut self, set: &[Token]) -> bool {
        let here = self.peek();
        if set.contains(&here.token) {
            return true;
        }
        let (text, expected) = (self.text(here), Token::expected(set));
        self.syntax_error(here, format!("extraneous input '{text}' expecting {expected}"));
        while !set.contains(&self.peek().token) && !self.may_follow(self.peek().token) {
            self.at += 1;
        }
        set.contains(&self.peek().token)
    }

    /// Reports that no rule fits at `start`, quoting the tokens from `from` on. No token is consumed, so `recovering`
    /// keeps the value from before.
    pub(super) fn no_viable_alternative(
        &mut self,
        start: usize,
        from: usize,
        recovering: bool,
    ) -> Parsed {
        let here = self.peek();
        // The quoted text includes white space and comments between the tokens.
        let start_of = self.lexeme(from).start;
        let end = match here.token {
            Token::Eof => self.source.characters.len() as u32,
            _ => here.end,
        };
        let text: String = (start_of..end)
            .filter(|at| {
                let next = self.unread.partition_point(|(_, end)| end <= at);
                self.unread.get(next).is_none_or(|(start, _)| start > at)
            })
            .filter_map(|at| self.source.characters.get(at as usize))
            .collect();
        let text = text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r");
        self.recovering = recovering;
        self.syntax_error(here, format!("no viable alternative at input '{text}'"));
        self.at = start;
        Err(Abort::Syntax)
    }

    pub(super) fn syntax_error(&mut self, at: Lexeme, message: String) {
        if std::mem::replace(&mut self.recovering, true) {
            return;
        }
        let mut location = self.source.location(at.start);
        if self.source.characters.is_empty() {
            location.column = -1;
        }
        self.issues.report(location, format!("Syntax error: {message}"));
    }
}

pub(super) fn with(set: &[Token], more: &[Token]) -> Vec<Token> {
    [set, more].concat()
}
