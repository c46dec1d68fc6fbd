//! Expressions as trees, with their sizes.

use std::sync::Arc;

use crate::class::Class;
use crate::runes::Runes;

/// A part of an expression.
#[derive(Debug)]
pub(crate) struct Piece {
    pub node: Node,
    /// Number of instructions of the compiled piece.
    pub size: u64,
    pub height: usize,
    /// Maximum number of copies that nested counted repetitions make of anything in it.
    pub copies: u64,
}

#[derive(Debug)]
pub(crate) enum Node {
    Empty,
    /// A code point; `fold`: case-insensitive.
    Rune {
        rune: u32,
        fold: bool,
    },
    /// Consecutive code points.
    Literal {
        runes: Vec<u32>,
        fold: bool,
    },
    Class(Class),
    Look(Look),
    /// A capturing group. Captures are not recorded, but count in the size as in Go.
    Capture(Box<Piece>),
    Repeat {
        piece: Box<Piece>,
        repeat: Repeat,
        greedy: bool,
    },
    Concat(Vec<Piece>),
    Alternate(Vec<Piece>),
}

/// A condition on a position in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    BeginText,
    EndText,
    BeginLine,
    EndLine,
    WordBoundary,
    NoWordBoundary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Star,
    Plus,
    Optional,
    /// `{2}`, `{2,}`, `{2,3}`
    Counted {
        min: u32,
        max: Option<u32>,
    },
}

impl Repeat {
    /// Minimum and maximum number of repetitions.
    pub fn bounds(self) -> (u32, Option<u32>) {
        match self {
            Repeat::Star => (0, None),
            Repeat::Plus => (1, None),
            Repeat::Optional => (0, Some(1)),
            Repeat::Counted { min, max } => (min, max),
        }
    }

    fn size(self, of: u64) -> u64 {
        match self {
            Repeat::Star | Repeat::Counted { min: 0, max: None } => of + 2,
            Repeat::Plus | Repeat::Optional => of + 1,
            Repeat::Counted { min, max: None } => of.saturating_mul(min.into()).saturating_add(1),
            Repeat::Counted { min, max: Some(max) } => {
                of.saturating_mul(max.into()).saturating_add(max.saturating_sub(min).into())
            }
        }
    }

    fn copies(self, of: u64) -> u64 {
        match self {
            // A piece with zero copies is not counted.
            Repeat::Counted { max: Some(0), .. } => 1,
            Repeat::Counted { min, max } => of.saturating_mul(max.unwrap_or(min).max(1).into()),
            Repeat::Star | Repeat::Plus | Repeat::Optional => of,
        }
    }
}

impl Piece {
    fn leaf(node: Node, size: u64) -> Self {
        Piece { node, size: size.max(1), height: 1, copies: 1 }
    }

    pub fn empty() -> Self {
        Piece::leaf(Node::Empty, 1)
    }

    pub fn literal(rune: u32, fold: bool) -> Self {
        Piece::leaf(Node::Rune { rune, fold }, 1)
    }

    /// A class; a class of a single character becomes that character.
    pub fn class(class: Class) -> Self {
        let single = match &class {
            Class::Whole(runes) => runes.single(),
            Class::Parts(_) => None,
        };
        match single {
            Some(rune) => Piece::literal(rune, false),
            None => Piece::leaf(Node::Class(class), 1),
        }
    }

    pub fn look(look: Look) -> Self {
        Piece::leaf(Node::Look(look), 1)
    }

    pub fn capture(self) -> Self {
        let (size, height, copies) = (self.size.saturating_add(2), self.height + 1, self.copies);
        Piece { node: Node::Capture(Box::new(self)), size, height, copies }
    }

    pub fn repeat(self, repeat: Repeat, greedy: bool) -> Self {
        let size = repeat.size(self.size).max(1);
        let (height, copies) = (self.height + 1, repeat.copies(self.copies));
        Piece { node: Node::Repeat { piece: Box::new(self), repeat, greedy }, size, height, copies }
    }

    /// Sequence of pieces. Nested sequences are flattened.
    pub fn concat(pieces: Vec<Piece>) -> Self {
        Piece::joined(pieces, Piece::empty, 0, Node::Concat, |node| match node {
            Node::Concat(inner) => Ok(inner),
            other => Err(other),
        })
    }

    /// Alternatives. Nested alternatives are flattened.
    pub fn alternate(pieces: Vec<Piece>) -> Self {
        Piece::joined(pieces, Piece::empty, 1, Node::Alternate, |node| match node {
            Node::Alternate(inner) => Ok(inner),
            other => Err(other),
        })
    }

    fn joined(
        mut pieces: Vec<Piece>,
        none: fn() -> Piece,
        between: u64,
        join: fn(Vec<Piece>) -> Node,
        inner: fn(Node) -> Result<Vec<Piece>, Node>,
    ) -> Self {
        if pieces.len() < 2 {
            return pieces.pop().unwrap_or_else(none);
        }
        let mut flat = Vec::with_capacity(pieces.len());
        for Piece { node, size, height, copies } in pieces {
            match inner(node) {
                Ok(inner) => flat.extend(inner),
                Err(node) => flat.push(Piece { node, size, height, copies }),
            }
        }
        let sizes = flat.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.size));
        let size = sizes.saturating_add(between * (flat.len() as u64 - 1));
        let height = 1 + flat.iter().map(|piece| piece.height).max().unwrap_or(0);
        let copies = flat.iter().map(|piece| piece.copies).max().unwrap_or(1);
        Piece { node: join(flat), size: size.max(1), height, copies }
    }

    /// Number of code points that the node holds itself: two for each range of a class.
    pub fn runes(&self) -> usize {
        match &self.node {
            Node::Literal { runes, .. } => runes.len(),
            Node::Rune { .. } => 1,
            Node::Class(class) => 2 * class.ranges(),
            _ => 0,
        }
    }

    /// Appends another literal, if both are literals of one kind; otherwise returns it.
    pub fn append(&mut self, other: Piece) -> Option<Piece> {
        if let Node::Rune { rune, fold } = self.node
            && matches!(other.node, Node::Rune { .. } | Node::Literal { .. })
        {
            self.node = Node::Literal { runes: vec![rune], fold };
        }
        match (&mut self.node, other.node) {
            (Node::Literal { runes, fold }, Node::Literal { runes: more, fold: same })
                if *fold == same =>
            {
                runes.extend(more);
                self.size = runes.len() as u64;
                None
            }
            (Node::Literal { runes, fold }, Node::Rune { rune, fold: same }) if *fold == same => {
                runes.push(rune);
                self.size = runes.len() as u64;
                None
            }
            (_, node) => Some(Piece { node, ..other }),
        }
    }

    /// The character set, if the piece matches exactly one character and the set is computed.
    pub fn one_character(&self) -> Option<Arc<Runes>> {
        match &self.node {
            Node::Class(Class::Whole(runes)) => Some(runes.clone()),
            Node::Rune { rune, fold } => Some(Arc::new(folded(*rune, *fold))),
            _ => None,
        }
    }
}

/// Characters that a literal's character matches.
pub(crate) fn folded(rune: u32, fold: bool) -> Runes {
    let mut ranges = vec![(rune, rune)];
    if fold {
        crate::fold::add_folded(rune, rune, &mut ranges);
    }
    Runes::new(ranges)
}
