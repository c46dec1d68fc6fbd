//! Programs: expressions as instructions for the machine, which follows all alternatives at once.
//!
//! Like Go's programs, and unlike the automata of `regex-automata`, an instruction reads a whole character and refers
//! to its class, so that `\pL{1000}` is a thousand instructions and one class rather than a thousand automata over
//! bytes. Compiling takes a step for each instruction.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::class::Class;
use crate::runes::Runes;
use crate::tree::{Look, Node, Piece, folded};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Instruction {
    Rune {
        rune: u32,
        next: u32,
    },
    Class {
        class: u32,
        next: u32,
    },
    Look {
        look: Look,
        next: u32,
    },
    /// Two alternatives; the first is preferred.
    Split {
        first: u32,
        second: u32,
    },
    Match,
    /// Never matches.
    Fail,
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Program {
    pub instructions: Vec<Instruction>,
    pub classes: Vec<Arc<Runes>>,
    pub start: u32,
    /// Whether it matches only at the beginning of the text.
    pub anchored: bool,
}

impl Program {
    pub fn new(piece: &Piece) -> Self {
        let program =
            Program { instructions: Vec::new(), classes: Vec::new(), start: 0, anchored: false };
        let mut compiler = Compiler { program, folds: Vec::new(), recent: VecDeque::new() };
        let end = compiler.emit(Instruction::Match);
        let start = compiler.piece(piece, end);
        let anchored = begins_text(piece);
        Program { start, anchored, ..compiler.program }
    }

    /// Memory of the program, in bytes, as if it shared no class with others.
    pub fn memory(&self) -> usize {
        let ranges: usize = self.classes.iter().map(|class| class.ranges().len()).sum();
        self.instructions.len() * size_of::<Instruction>() + ranges * size_of::<(u32, u32)>()
    }
}

/// Number of recent classes that are looked up for sharing while compiling: the search must stay short.
const RECENT: usize = 64;

struct Compiler {
    program: Program,
    /// Case-insensitive classes of single characters, by character.
    folds: Vec<(u32, u32)>,
    /// The last compiled classes, by address in the tree.
    recent: VecDeque<(usize, u32)>,
}

impl Compiler {
    fn emit(&mut self, instruction: Instruction) -> u32 {
        kevel_compute::charge(1);
        let at = self.program.instructions.len();
        self.program.instructions.push(instruction);
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Compiles a piece that continues at instruction `next`; returns the piece's first instruction.
    fn piece(&mut self, piece: &Piece, next: u32) -> u32 {
        match &piece.node {
            Node::Empty => next,
            Node::Literal { runes, fold } => {
                runes.iter().rev().fold(next, |next, rune| self.rune(*rune, *fold, next))
            }
            Node::Rune { rune, fold } => self.rune(*rune, *fold, next),
            Node::Class(class) => {
                let class = self.class(class);
                self.emit(Instruction::Class { class, next })
            }
            Node::Look(look) => self.emit(Instruction::Look { look: *look, next }),
            Node::Capture(inner) => self.piece(inner, next),
            Node::Concat(pieces) => {
                pieces.iter().rev().fold(next, |next, piece| self.piece(piece, next))
            }
            Node::Alternate(pieces) => {
                let mut branches = pieces.iter().rev();
                let last = branches.next().map_or(next, |piece| self.piece(piece, next));
                branches.fold(last, |second, piece| {
                    let first = self.piece(piece, next);
                    self.emit(Instruction::Split { first, second })
                })
            }
            Node::Repeat { piece, repeat, greedy } => {
                let (min, max) = repeat.bounds();
                self.repeat(piece, min, max, *greedy, next)
            }
        }
    }

    fn repeat(
        &mut self,
        piece: &Piece,
        min: u32,
        max: Option<u32>,
        greedy: bool,
        next: u32,
    ) -> u32 {
        let (mut entry, copies) = match max {
            // Zero times, or the last required copy any number of times.
            None => {
                let plus = self.plus(piece, greedy, next);
                let optional = min == 0;
                (if optional { self.split(plus, next, greedy) } else { plus }, min.max(1) - 1)
            }
            Some(max) => {
                let mut entry = next;
                for _ in min..max {
                    let inner = self.piece(piece, entry);
                    entry = self.split(inner, next, greedy);
                }
                (entry, min)
            }
        };
        for _ in 0..copies {
            entry = self.piece(piece, entry);
        }
        entry
    }

    fn plus(&mut self, piece: &Piece, greedy: bool, next: u32) -> u32 {
        let again = self.emit(Instruction::Fail);
        let entry = self.piece(piece, again);
        let (first, second) = if greedy { (entry, next) } else { (next, entry) };
        if let Some(place) = self.program.instructions.get_mut(again as usize) {
            *place = Instruction::Split { first, second };
        }
        entry
    }

    fn split(&mut self, inner: u32, next: u32, greedy: bool) -> u32 {
        let (first, second) = if greedy { (inner, next) } else { (next, inner) };
        self.emit(Instruction::Split { first, second })
    }

    fn rune(&mut self, rune: u32, fold: bool, next: u32) -> u32 {
        if !fold {
            return self.emit(Instruction::Rune { rune, next });
        }
        let known = self.folds.iter().find(|(folded, _)| *folded == rune).map(|(_, class)| *class);
        let class = known.unwrap_or_else(|| {
            let class = self.add_class(Arc::new(folded(rune, true)));
            if self.folds.len() < RECENT {
                self.folds.push((rune, class));
            }
            class
        });
        self.emit(Instruction::Class { class, next })
    }

    /// Number of a class. The copies of a repetition follow each other, and share it.
    fn class(&mut self, class: &Class) -> u32 {
        let place = std::ptr::from_ref(class).addr();
        let known = self.recent.iter().find(|(known, _)| *known == place);
        if let Some((_, number)) = known {
            return *number;
        }
        let number = self.add_class(class.runes());
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((place, number));
        number
    }

    fn add_class(&mut self, runes: Arc<Runes>) -> u32 {
        self.program.classes.push(runes);
        u32::try_from(self.program.classes.len() - 1).unwrap_or(u32::MAX)
    }
}

/// Whether every match of a piece begins at the beginning of the text.
fn begins_text(piece: &Piece) -> bool {
    match &piece.node {
        Node::Look(look) => *look == Look::BeginText,
        Node::Capture(inner) => begins_text(inner),
        Node::Concat(pieces) => pieces.first().is_some_and(begins_text),
        Node::Alternate(pieces) => pieces.iter().all(begins_text),
        _ => false,
    }
}
