//! Parser of operands: literals, names, calls, lists, maps and objects.

use super::expect::{START, with};
use super::token::Token;
use super::{Abort, Node, Parsed, Parser, RESERVED, literal};
use crate::ast::{Element, Expr, ExprKind, Literal, MapEntry, StructField};

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Parsed {
        let first = self.peek();
        match first.token {
            Token::Identifier => self.identifier(false),
            Token::Dot => {
                let (start, recovering) = (self.at, self.recovering);
                self.next();
                if self.peek().token != Token::Identifier {
                    return self.no_viable_alternative(start, start, recovering);
                }
                self.identifier(true)
            }
            Token::LeftParen => {
                self.next();
                let inner = self.nested(&[Token::RightParen])?;
                self.expect_after_operand(Token::RightParen)?;
                Ok(inner)
            }
            Token::LeftBracket => self.list(),
            Token::LeftBrace => self.map(),
            Token::Exclamation => {
                let text = self.text(first);
                let expected = Token::expected(
                    &START.iter().copied().filter(|t| *t != Token::Exclamation).collect::<Vec<_>>(),
                );
                self.syntax_error(first, format!("mismatched input '{text}' expecting {expected}"));
                Err(Abort::Syntax)
            }
            _ => self.literal(),
        }
    }

    pub(super) fn literal(&mut self) -> Parsed {
        let first = self.next();
        let lexeme = if first.token == Token::Minus { self.next() } else { first };
        let sign = if first.token == Token::Minus { "-" } else { "" };
        let text = format!("{sign}{}", self.text(lexeme));
        let characters = self.slice(lexeme);
        let value = match lexeme.token {
            Token::True => Ok(Literal::Bool(true)),
            Token::False => Ok(Literal::Bool(false)),
            Token::Null => Ok(Literal::Null),
            Token::Int => literal::integer(&text, |s, radix| i64::from_str_radix(s, radix).ok())
                .map(Literal::Int)
                .ok_or("invalid int literal"),
            Token::Uint => {
                let digits = &text[..text.len() - 1];
                literal::integer(digits, |s, radix| u64::from_str_radix(s, radix).ok())
                    .map(Literal::Uint)
                    .ok_or("invalid uint literal")
            }
            Token::Float => match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Literal::Double(value)),
                _ => Err("invalid double literal"),
            },
            Token::String => literal::unescape(characters, false)
                .map(|text| Literal::String(String::from_utf8_lossy(&text).into())),
            _ => literal::unescape(characters.get(1..).unwrap_or_default(), true)
                .map(|bytes| Literal::Bytes(bytes.into())),
        };
        let id = self.id(first.start);
        let kind = match value {
            Ok(value) => ExprKind::Literal(value),
            Err(message) => {
                self.issues.report(self.source.location(first.start), message);
                ExprKind::Unspecified
            }
        };
        Ok(Node { expr: Expr { id, kind }, nesting: 0 })
    }

    /// Parses a name: of a variable, a called function, or an object type under construction.
    pub(super) fn identifier(&mut self, leading_dot: bool) -> Parsed {
        if let Some(count) = self.struct_name() {
            return self.structure(count, leading_dot);
        }
        let lexeme = self.next();
        let text = self.text(lexeme);
        let name = if leading_dot { format!(".{text}") } else { text.clone() };
        let open = self.accept(Token::LeftParen);
        if RESERVED.contains(&text.as_str()) {
            if open.is_some() {
                self.arguments()?;
            }
            let id = self.id(lexeme.start);
            let location = self.source.location(lexeme.start);
            self.issues.report(location, format!("reserved identifier: {text}"));
            return Ok(Node { expr: Expr { id, kind: ExprKind::Unspecified }, nesting: 0 });
        }
        let Some(open) = open else {
            let id = self.id(lexeme.start);
            return Ok(Node { expr: Expr { id, kind: ExprKind::Ident(name.into()) }, nesting: 0 });
        };
        let (args, nesting) = self.arguments()?;
        let id = self.id(open.start);
        let expr = self.call_or_macro(id, &name, None, args);
        Ok(Node { expr, nesting })
    }

    /// Number of identifiers in the type name before a `{`, if an object construction begins here.
    pub(super) fn struct_name(&self) -> Option<usize> {
        let mut count = 1;
        loop {
            match (self.peek_at(2 * count - 1), self.peek_at(2 * count)) {
                (Token::LeftBrace, _) => return Some(count),
                (Token::Dot, Token::Identifier) => count += 1,
                _ => return None,
            }
        }
    }

    pub(super) fn structure(&mut self, identifiers: usize, leading_dot: bool) -> Parsed {
        let mut name = String::new();
        for i in 0..identifiers {
            if i > 0 {
                self.next();
            }
            if i > 0 || leading_dot {
                name.push('.');
            }
            let lexeme = self.next();
            name.push_str(&self.text(lexeme));
        }
        let open = self.next();
        let id = self.id(open.start);
        let (mut fields, mut nesting) = (Vec::new(), 0);
        const FIELD: &[Token] = &[Token::Question, Token::Identifier, Token::EscapedIdentifier];
        const FIRST: &[Token] = &[
            Token::RightBrace,
            Token::Comma,
            Token::Question,
            Token::Identifier,
            Token::EscapedIdentifier,
        ];
        self.expect_start(FIRST)?;
        while FIELD.contains(&self.peek().token) {
            let optional = self.accept(Token::Question).is_some();
            self.expect_start(&[Token::Identifier, Token::EscapedIdentifier])?;
            let lexeme = self.next();
            if lexeme.token == Token::EscapedIdentifier {
                self.issues.report(self.source.location(lexeme.start), "unsupported syntax: '`'");
            }
            let colon = self.expect(Token::Colon, START)?;
            let field_id = self.id(colon.start);
            let value = self.nested(&[Token::RightBrace, Token::Comma])?;
            nesting = nesting.max(value.nesting);
            let name = self.text(lexeme).into();
            fields.push(StructField { id: field_id, name, value: value.expr, optional });
            self.expect_start(&[Token::RightBrace, Token::Comma])?;
            if self.accept(Token::Comma).is_none() {
                break;
            }
        }
        if fields.is_empty() {
            self.accept(Token::Comma);
        }
        self.expect_after_operand(Token::RightBrace)?;
        let kind = ExprKind::Struct { name: name.into(), fields };
        Ok(Node { expr: Expr { id, kind }, nesting })
    }

    pub(super) fn list(&mut self) -> Parsed {
        let open = self.next();
        let id = self.id(open.start);
        let (mut elements, mut nesting) = (Vec::new(), 0);
        self.expect_start(&with(START, &[Token::RightBracket, Token::Comma, Token::Question]))?;
        while !matches!(self.peek().token, Token::RightBracket | Token::Comma) {
            let optional = self.accept(Token::Question).is_some();
            let value = self.nested(&[Token::RightBracket, Token::Comma])?;
            nesting = nesting.max(value.nesting);
            elements.push(Element { value: value.expr, optional });
            self.expect_start(&[Token::RightBracket, Token::Comma])?;
            if self.accept(Token::Comma).is_none() || !self.is_at_item() {
                break;
            }
        }
        if elements.is_empty() {
            self.accept(Token::Comma);
        }
        self.expect_after_operand(Token::RightBracket)?;
        Ok(Node { expr: Expr { id, kind: ExprKind::List { elements } }, nesting })
    }

    pub(super) fn map(&mut self) -> Parsed {
        let open = self.next();
        let id = self.id(open.start);
        let (mut entries, mut nesting) = (Vec::new(), 0);
        self.expect_start(&with(START, &[Token::RightBrace, Token::Comma, Token::Question]))?;
        while !matches!(self.peek().token, Token::RightBrace | Token::Comma) {
            let optional = self.accept(Token::Question).is_some();
            let key = self.nested(&[Token::Colon])?;
            self.expect(Token::Colon, START)?;
            let value = self.nested(&[Token::RightBrace, Token::Comma])?;
            nesting = nesting.max(key.nesting).max(value.nesting);
            entries.push(MapEntry { key: key.expr, value: value.expr, optional });
            self.expect_start(&[Token::RightBrace, Token::Comma])?;
            if self.accept(Token::Comma).is_none() || !self.is_at_item() {
                break;
            }
        }
        if entries.is_empty() {
            self.accept(Token::Comma);
        }
        self.expect_after_operand(Token::RightBrace)?;
        Ok(Node { expr: Expr { id, kind: ExprKind::Map { entries } }, nesting })
    }

    /// Whether an item of a list or map begins here; otherwise the comma before was a trailing one.
    fn is_at_item(&self) -> bool {
        let token = self.peek().token;
        token == Token::Question || START.contains(&token)
    }

    /// Parses arguments up to the closing parenthesis.
    pub(super) fn arguments(&mut self) -> Result<(Vec<Expr>, u32), Abort> {
        let (mut args, mut nesting) = (Vec::new(), 0);
        self.expect_start(&with(START, &[Token::RightParen]))?;
        if self.peek().token != Token::RightParen {
            loop {
                let arg = self.nested(&[Token::RightParen, Token::Comma])?;
                nesting = nesting.max(arg.nesting);
                args.push(arg.expr);
                if self.accept(Token::Comma).is_none() {
                    break;
                }
            }
        }
        self.expect_after_operand(Token::RightParen)?;
        Ok((args, nesting))
    }
}
