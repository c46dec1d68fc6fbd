//! Parser of CEL expressions.

mod expect;
mod literal;
mod macros;
mod primary;
mod token;

use std::sync::Arc;

use crate::ast::{Ast, Expr, ExprId, ExprKind, Literal, operator};
use crate::source::{Issues, Location, Source};
use expect::{START, with};
use token::{Lexeme, Token, tokenize};

pub(crate) use macros::ACCUMULATOR;

/// Limit on the characters of an expression.
pub const MAX_EXPRESSION_SIZE: usize = 100_000;
/// Limit on the recursion of a grammar rule, and on the nesting of operations.
pub const MAX_RECURSION: u32 = 250;
/// Limit on the height of the tree after macro expansion: the checker, planner and evaluator recurse over it.
const MAX_HEIGHT: u32 = 400;

/// Parses an expression; `bindings` says whether `cel.bind` is a macro.
pub(crate) fn parse(text: &str, bindings: bool) -> Result<Ast, Issues> {
    let source = Source::new(text);
    let mut issues = Issues::new(&source);
    let size = source.characters.len();
    if size > MAX_EXPRESSION_SIZE {
        issues.report(Location::NONE, format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_EXPRESSION_SIZE}"
        ));
        return Err(issues);
    }
    let (lexemes, unread) = tokenize(&source, &mut issues);
    let mut parser = Parser {
        source: &source,
        issues,
        lexemes,
        at: 0,
        offsets: Vec::new(),
        bindings,
        depth: Depth::default(),
        followers: vec![&[Token::Eof]],
        unread,
        recovering: false,
    };
    let root = parser.start();
    let Parser { issues, offsets, .. } = parser;
    let Ok(root) = root else {
        return Err(issues.or_else(()).err().unwrap_or_else(|| Issues::new(&source)));
    };
    let root = issues.or_else(root)?;
    if height(&root) > MAX_HEIGHT {
        let mut issues = Issues::new(&source);
        issues.report(Location::NONE, "max recursion depth exceeded");
        return Err(issues);
    }
    Ok(Ast { root, source, offsets })
}

fn height(expr: &Expr) -> u32 {
    let mut highest = 0;
    expr.for_each_child(&mut |child| highest = highest.max(height(child)));
    highest + 1
}

/// Parsing of a rule has failed; the issue is reported.
enum Abort {
    /// Syntax error: parsing continues after it, to find further issues.
    Syntax,
    /// The nesting is too deep: parsing ends.
    Depth,
}

type Parsed = Result<Node, Abort>;

/// An expression, with the nesting depth of its operations.
struct Node {
    expr: Expr,
    nesting: u32,
}

/// Current recursion depth of each recursive rule.
#[derive(Default)]
struct Depth {
    expression: u32,
    relation: u32,
    calculation: u32,
    member: u32,
}

struct Parser<'s> {
    source: &'s Source,
    issues: Issues,
    lexemes: Vec<Lexeme>,
    at: usize,
    offsets: Vec<u32>,
    bindings: bool,
    depth: Depth,
    /// Tokens that may follow the expressions being parsed, innermost last.
    followers: Vec<&'static [Token]>,
    /// Start and end of texts that are no tokens.
    unread: Vec<(u32, u32)>,
    /// Whether no token was consumed since the last issue: further errors are consequences of it.
    recovering: bool,
}

/// Tokens that may follow a dot.
const NAME: &[Token] = &[Token::Identifier, Token::EscapedIdentifier];

/// Reserved words, which are not variables, so that the language can grow.
pub(crate) const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

impl Parser<'_> {
    fn start(&mut self) -> Result<Expr, Abort> {
        let node = self.expression()?;
        self.expect(Token::Eof, &[])?;
        Ok(node.expr)
    }

    /// Parses `or ('?' or ':' expression)?`
    fn expression(&mut self) -> Parsed {
        let (levels, depth) = (self.followers.len(), self.depth.expression);
        let parsed = self.conditional();
        self.depth.expression = depth;
        self.or_recover(parsed, levels)
    }

    fn conditional(&mut self) -> Parsed {
        self.depth.expression += 1;
        self.check_depth(self.depth.expression)?;
        let condition = self.or()?;
        let node = match self.accept(Token::Question) {
            None => condition,
            Some(question) => {
                self.followers.push(&[Token::Colon]);
                let truthy = self.or()?;
                self.followers.pop();
                self.expect(Token::Colon, START)?;
                let falsy = self.expression()?;
                self.operation(
                    question.start,
                    operator::CONDITIONAL,
                    vec![condition, truthy, falsy],
                )?
            }
        };
        Ok(node)
    }

    fn or(&mut self) -> Parsed {
        self.logical(Token::Or, operator::OR, Self::and)
    }

    fn and(&mut self) -> Parsed {
        self.logical(Token::And, operator::AND, |parser| parser.relation())
    }

    /// Parses terms joined by one operator, as a balanced tree.
    fn logical(
        &mut self,
        token: Token,
        operator: &str,
        term: impl Fn(&mut Self) -> Parsed,
    ) -> Parsed {
        let first = term(self)?;
        let mut nesting = first.nesting;
        let (mut terms, mut operators) = (vec![Some(first.expr)], Vec::new());
        while let Some(lexeme) = self.accept(token) {
            let next = term(self)?;
            nesting = nesting.max(next.nesting);
            terms.push(Some(next.expr));
            operators.push(self.id(lexeme.start));
        }
        Ok(Node { expr: balance(operator, &mut terms, &operators), nesting })
    }

    /// Parses relations, which are left-associative and have equal precedence.
    fn relation(&mut self) -> Parsed {
        self.depth.relation += 1;
        self.check_depth(self.depth.relation)?;
        let entered = self.depth.relation;
        let mut left = self.calculation(0)?;
        while let Some(operator) = relation(self.peek().token) {
            let lexeme = self.next();
            self.depth.relation += 1;
            self.check_depth(self.depth.relation + 1)?;
            let right = self.calculation(0)?;
            left = self.operation(lexeme.start, operator, vec![left, right])?;
        }
        self.depth.relation = entered - 1;
        Ok(left)
    }

    fn calculation(&mut self, binding: u8) -> Parsed {
        self.depth.calculation += 1;
        self.check_depth(self.depth.calculation)?;
        let entered = self.depth.calculation;
        let mut left = self.unary()?;
        while let Some((operator, strength)) = calculation(self.peek().token) {
            if strength < binding {
                break;
            }
            let lexeme = self.next();
            self.depth.calculation += 1;
            self.check_depth(self.depth.calculation)?;
            let right = self.calculation(strength + 1)?;
            left = self.operation(lexeme.start, operator, vec![left, right])?;
        }
        self.depth.calculation = entered - 1;
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let levels = self.followers.len();
        let parsed = self.signed();
        self.or_recover(parsed, levels)
    }

    fn signed(&mut self) -> Parsed {
        self.expect_start(START)?;
        let (first, start, recovering) = (self.peek(), self.at, self.recovering);
        let (token, operator) = match first.token {
            Token::Exclamation => (Token::Exclamation, operator::NOT),
            // A sign before a number is part of the number.
            Token::Minus if !matches!(self.peek_at(1), Token::Int | Token::Float) => {
                (Token::Minus, operator::NEGATE)
            }
            _ => return self.member(),
        };
        let mut count = 0;
        while self.accept(token).is_some() {
            count += 1;
        }
        let operand_start: Vec<Token> =
            START.iter().copied().filter(|t| !matches!(t, Token::Exclamation)).collect();
        if token == Token::Minus && !operand_start.contains(&self.peek().token) {
            return self.no_viable_alternative(start, self.at - 1, recovering);
        }
        if token == Token::Exclamation && !self.skip_to(START) {
            return Err(Abort::Syntax);
        }
        let operand = self.member()?;
        if count % 2 == 0 {
            return Ok(operand);
        }
        let id = self.id(first.start);
        let call =
            ExprKind::Call { function: operator.into(), target: None, args: vec![operand.expr] };
        Ok(Node { expr: Expr { id, kind: call }, nesting: operand.nesting })
    }

    /// Parses a primary with the selections, calls and indexes after it.
    fn member(&mut self) -> Parsed {
        let (levels, depth) = (self.followers.len(), self.depth.member);
        let parsed = self.selected();
        self.depth.member = depth;
        if let Err(Abort::Syntax) = parsed {
            // Further selections belong to the text that cannot be parsed.
            while matches!(self.peek().token, Token::Dot | Token::LeftBracket) {
                self.at += 1;
            }
        }
        self.or_recover(parsed, levels)
    }

    fn selected(&mut self) -> Parsed {
        self.depth.member += 1;
        self.check_depth(self.depth.member)?;
        let levels = self.followers.len();
        let primary = self.primary();
        let mut node = self.or_recover(primary, levels)?;
        loop {
            node = match self.peek().token {
                Token::Dot => self.selection(node)?,
                Token::LeftBracket => self.index(node)?,
                _ => break,
            };
            self.depth.member += 1;
            self.check_depth(self.depth.member)?;
        }
        Ok(node)
    }

    fn selection(&mut self, operand: Node) -> Parsed {
        let (start, recovering) = (self.at, self.recovering);
        let dot = self.next();
        let optional = self.accept(Token::Question).is_some();
        if optional && let Err(error) = self.expect_start(NAME) {
            self.issues.report(self.source.location(self.peek().start), "unsupported ident kind");
            return Err(error);
        }
        let name = self.peek();
        if name.token == Token::EscapedIdentifier {
            self.next();
            self.issues.report(self.source.location(name.start), "unsupported syntax: '`'");
        } else if name.token != Token::Identifier {
            return match name.token {
                Token::True | Token::False | Token::Null if !optional => {
                    self.syntax_error(
                        name,
                        format!("mismatched input {} expecting IDENTIFIER", name.token.name()),
                    );
                    Err(Abort::Syntax)
                }
                _ => self.no_viable_alternative(start, start, recovering),
            };
        } else {
            self.next();
        }
        let field: Arc<str> = self.text(name).into();
        if self.peek().token == Token::LeftParen && !optional {
            let open = self.next();
            let (args, nesting) = self.arguments()?;
            let nesting = self.nest(nesting.max(operand.nesting))?;
            let id = self.id(open.start);
            let expr = self.call_or_macro(id, &field, Some(operand.expr), args);
            return Ok(Node { expr, nesting });
        }
        let nesting = self.nest(operand.nesting)?;
        let id = self.id(dot.start);
        let kind = if optional {
            let name_id = self.id(name.start);
            let name = Expr { id: name_id, kind: ExprKind::Literal(Literal::String(field)) };
            let args = vec![operand.expr, name];
            ExprKind::Call { function: operator::OPT_SELECT.into(), target: None, args }
        } else {
            ExprKind::Select { operand: Box::new(operand.expr), field, test_only: false }
        };
        Ok(Node { expr: Expr { id, kind }, nesting })
    }

    fn index(&mut self, target: Node) -> Parsed {
        let open = self.next();
        self.expect_start(&with(START, &[Token::Question]))?;
        let optional = self.accept(Token::Question).is_some();
        let index = self.nested(&[Token::RightBracket])?;
        self.expect_after_operand(Token::RightBracket)?;
        let operator = if optional { operator::OPT_INDEX } else { operator::INDEX };
        self.operation(open.start, operator, vec![target, index])
    }

    /// Parses an expression that other tokens than the end of the text follow.
    fn nested(&mut self, followers: &'static [Token]) -> Parsed {
        self.followers.push(followers);
        let node = self.expression()?;
        self.followers.pop();
        Ok(node)
    }

    fn operation(&mut self, offset: u32, operator: &str, operands: Vec<Node>) -> Parsed {
        let nesting = self.nest(operands.iter().map(|o| o.nesting).max().unwrap_or(0))?;
        let id = self.id(offset);
        let args = operands.into_iter().map(|o| o.expr).collect();
        let kind = ExprKind::Call { function: operator.into(), target: None, args };
        Ok(Node { expr: Expr { id, kind }, nesting })
    }

    fn nest(&mut self, nesting: u32) -> Result<u32, Abort> {
        if nesting >= MAX_RECURSION {
            self.issues.report(Location::NONE, "max recursion depth exceeded");
            return Err(Abort::Depth);
        }
        Ok(nesting + 1)
    }

    fn check_depth(&mut self, depth: u32) -> Result<(), Abort> {
        if depth <= MAX_RECURSION {
            return Ok(());
        }
        let message = format!("expression recursion limit exceeded: {MAX_RECURSION}");
        self.issues.report(Location::NONE, message);
        Err(Abort::Depth)
    }

    /// Makes a new node at a position.
    fn id(&mut self, offset: u32) -> ExprId {
        self.offsets.push(offset);
        (self.offsets.len() - 1) as ExprId
    }
}

fn relation(token: Token) -> Option<&'static str> {
    Some(match token {
        Token::Less => "_<_",
        Token::LessEquals => "_<=_",
        Token::GreaterEquals => "_>=_",
        Token::Greater => "_>_",
        Token::Equals => operator::EQUALS,
        Token::NotEquals => operator::NOT_EQUALS,
        Token::In => operator::IN,
        _ => return None,
    })
}

fn calculation(token: Token) -> Option<(&'static str, u8)> {
    Some(match token {
        Token::Star => ("_*_", 2),
        Token::Slash => ("_/_", 2),
        Token::Percent => ("_%_", 2),
        Token::Plus => (operator::ADD, 1),
        Token::Minus => ("_-_", 1),
        _ => return None,
    })
}

/// Balanced tree of the terms; each is taken once.
fn balance(operator: &str, terms: &mut [Option<Expr>], operators: &[ExprId]) -> Expr {
    let middle = operators.len() / 2;
    let Some(id) = operators.get(middle) else {
        let term = terms.first_mut().and_then(Option::take);
        return term.unwrap_or(Expr { id: 0, kind: ExprKind::Unspecified });
    };
    let (left, right) = terms.split_at_mut(middle + 1);
    let args = vec![
        balance(operator, left, &operators[..middle]),
        balance(operator, right, &operators[middle + 1..]),
    ];
    Expr { id: *id, kind: ExprKind::Call { function: operator.into(), target: None, args } }
}
