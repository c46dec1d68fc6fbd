//! Expressions as automata of `regex-automata`: the fastest to search with, and expensive to build.

use regex_automata::meta;
use regex_automata::util::syntax;
use regex_syntax::hir::{self, Hir};

use crate::tree::{Look, Node, Piece, folded};

/// Limit on the memory of an automaton, in bytes. Building one this large takes a millisecond.
const MAX_AUTOMATON: usize = 128 << 10;
/// Limit on the cache of states of a search, in bytes.
const MAX_STATES: usize = 128 << 10;

/// Automaton of an expression, if it is not too large.
pub(crate) fn build(piece: &Piece) -> Option<meta::Regex> {
    let config = meta::Regex::config()
        .nfa_size_limit(Some(MAX_AUTOMATON))
        .onepass_size_limit(Some(MAX_AUTOMATON))
        .hybrid_cache_capacity(MAX_STATES)
        .which_captures(regex_automata::nfa::thompson::WhichCaptures::Implicit);
    let mut builder = meta::Regex::builder();
    builder.configure(config).syntax(syntax::Config::new()).build_from_hir(&lower(piece)).ok()
}

fn lower(piece: &Piece) -> Hir {
    match &piece.node {
        Node::Empty => Hir::empty(),
        Node::Literal { runes, fold } => {
            Hir::concat(runes.iter().map(|rune| character(*rune, *fold)).collect())
        }
        Node::Rune { rune, fold } => character(*rune, *fold),
        Node::Class(class) => Hir::class(hir::Class::Unicode(class.runes().class())),
        Node::Look(look) => Hir::look(match look {
            Look::BeginText => hir::Look::Start,
            Look::EndText => hir::Look::End,
            Look::BeginLine => hir::Look::StartLF,
            Look::EndLine => hir::Look::EndLF,
            Look::WordBoundary => hir::Look::WordAscii,
            Look::NoWordBoundary => hir::Look::WordAsciiNegate,
        }),
        Node::Capture(inner) => lower(inner),
        Node::Repeat { piece, repeat, greedy } => {
            let (min, max) = repeat.bounds();
            let sub = Box::new(lower(piece));
            Hir::repetition(hir::Repetition { min, max, greedy: *greedy, sub })
        }
        Node::Concat(pieces) => Hir::concat(pieces.iter().map(lower).collect()),
        Node::Alternate(pieces) => Hir::alternation(pieces.iter().map(lower).collect()),
    }
}

fn character(rune: u32, fold: bool) -> Hir {
    match (char::from_u32(rune), fold) {
        (Some(character), false) => {
            Hir::literal(character.encode_utf8(&mut [0; 4]).as_bytes().to_vec())
        }
        _ => Hir::class(hir::Class::Unicode(folded(rune, fold).class())),
    }
}
