//! Syntax tree of an expression: macros are expanded, operators are calls.

use std::sync::Arc;

use crate::source::{Location, Source};

/// Number by which the checker and the planner refer to a node.
pub(crate) type ExprId = u32;

/// Node of the syntax tree.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub id: ExprId,
    pub kind: ExprKind,
}

/// Kind of a node.
#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    /// Placeholder where an issue was reported.
    Unspecified,
    Literal(Literal),
    Ident(Arc<str>),
    Select {
        operand: Box<Expr>,
        field: Arc<str>,
        test_only: bool,
    },
    Call {
        function: Arc<str>,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List {
        elements: Vec<Element>,
    },
    Map {
        entries: Vec<MapEntry>,
    },
    Struct {
        name: Arc<str>,
        fields: Vec<StructField>,
    },
    Comprehension(Box<Comprehension>),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// An element of a list literal.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub value: Expr,
    pub optional: bool,
}

/// An entry of a map literal.
#[derive(Clone, Debug)]
pub(crate) struct MapEntry {
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

/// A field of an object literal.
#[derive(Clone, Debug)]
pub(crate) struct StructField {
    pub id: ExprId,
    pub name: Arc<str>,
    pub value: Expr,
    pub optional: bool,
}

/// A loop over a list's elements or a map's keys that gathers a result.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub range: Expr,
    pub variable: Arc<str>,
    /// With two variables, the first is the index or key and this one the element or value.
    pub second_variable: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub init: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

impl Comprehension {
    /// Whether the comprehension is no loop but binds a name to a value, as `optMap` makes it.
    pub fn is_binding(&self) -> bool {
        let no_range =
            matches!(&self.range.kind, ExprKind::List { elements } if elements.is_empty());
        no_range && matches!(self.condition.kind, ExprKind::Literal(Literal::Bool(false)))
    }
}

/// An expression, with the positions of its nodes in the text.
#[derive(Clone, Debug)]
pub(crate) struct Ast {
    pub root: Expr,
    pub source: Source,
    /// Offsets in the text, by node.
    pub offsets: Vec<u32>,
}

impl Ast {
    pub fn location(&self, id: ExprId) -> Location {
        match self.offsets.get(id as usize) {
            Some(offset) => self.source.location(*offset),
            None => Location::NONE,
        }
    }
}

impl Expr {
    /// Visits the node and all below it, parents first.
    pub fn visit<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        visit(self);
        self.for_each_child(&mut |child| child.visit(visit));
    }

    /// Visits the direct children.
    pub fn for_each_child<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        match &self.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => visit(operand),
            ExprKind::Call { target, args, .. } => {
                target.as_deref().into_iter().chain(args).for_each(visit)
            }
            ExprKind::List { elements } => elements.iter().for_each(|e| visit(&e.value)),
            ExprKind::Map { entries } => entries.iter().for_each(|e| {
                visit(&e.key);
                visit(&e.value);
            }),
            ExprKind::Struct { fields, .. } => fields.iter().for_each(|f| visit(&f.value)),
            ExprKind::Comprehension(c) => {
                [&c.range, &c.init, &c.condition, &c.step, &c.result].into_iter().for_each(visit);
            }
        }
    }

    /// Height of the tree.
    pub fn nesting(&self) -> usize {
        let mut below = 0;
        self.for_each_child(&mut |child| below = below.max(child.nesting()));
        below + 1
    }

    /// Dotted name that a chain of selections spells: `a.b.c`.
    pub fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select { operand, field, test_only: false } => {
                Some(format!("{}.{field}", operand.qualified_name()?))
            }
            _ => None,
        }
    }
}

/// Names of the functions behind operators.
pub(crate) mod operator {
    pub const CONDITIONAL: &str = "_?_:_";
    pub const AND: &str = "_&&_";
    pub const OR: &str = "_||_";
    pub const NOT: &str = "!_";
    pub const NEGATE: &str = "-_";
    pub const EQUALS: &str = "_==_";
    pub const NOT_EQUALS: &str = "_!=_";
    pub const ADD: &str = "_+_";
    pub const IN: &str = "@in";
    pub const INDEX: &str = "_[_]";
    pub const OPT_INDEX: &str = "_[?_]";
    pub const OPT_SELECT: &str = "_?._";
    pub const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub const MAP_INSERT: &str = "cel.@mapInsert";
}
