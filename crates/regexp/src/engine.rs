//! Compiled expressions, and their search engines.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use regex_automata::{Input, meta};

use crate::error::{Exhausted, SyntaxError};
use crate::machine::Machine;
use crate::program::Program;
use crate::tree::Piece;
use crate::{automaton, parser};

/// Maximum program size for which an automaton is tried. Larger expressions are searched by the machine, which is
/// slower and costs less to build.
const MAX_FOR_AUTOMATON: u64 = 2_000;
/// Limit on the memory of all compiled expressions of the process, in bytes. Beyond it an expression is compiled for
/// each search and dropped, which costs time and takes no memory.
const MAX_HELD: usize = 128 << 20;
/// Memory of an automaton's search caches.
const SEARCHES: usize = 32 << 10;
/// Maximum height that is compiled on the present stack (request threads have 2 MiB) and to an automaton, whose builder
/// recurses as well.
const SHALLOW: usize = 100;
/// Stack of one level, in bytes, in a build without optimization.
const LEVEL: usize = 8 << 10;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// A regular expression that Go accepts. Clones share the compiled form.
#[derive(Clone)]
pub struct Regexp(Arc<Shared>);

struct Shared {
    piece: Piece,
    engine: OnceLock<Held>,
}

/// An engine, counted in `HELD` while it lives.
struct Held {
    engine: Engine,
    bytes: usize,
}

impl Held {
    fn new(engine: Engine) -> Self {
        let bytes = engine.memory();
        HELD.fetch_add(bytes, Ordering::Relaxed);
        Held { engine, bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

pub(crate) enum Engine {
    Automaton(meta::Regex),
    Program(Program),
}

impl Regexp {
    /// Parses an expression; the error has Go's message. Takes time that is linear in the expression: it is compiled at
    /// the first search.
    pub fn new(pattern: &str) -> Result<Self, SyntaxError> {
        let piece = parser::parse(pattern)?;
        Ok(Regexp(Arc::new(Shared { piece, engine: OnceLock::new() })))
    }

    /// The same expression for one search in a short text: compiled to the form that is cheapest to build, rather than
    /// fastest to search with.
    pub fn for_one_search(self) -> Self {
        kevel_compute::filled(&self.0.engine, || Held::new(Engine::program(&self.0.piece)));
        self
    }

    /// Whether the expression matches anywhere in the text.
    pub fn is_match(&self, text: &str) -> Result<bool, Exhausted> {
        self.with_engine(|engine| match engine {
            Engine::Automaton(regex) => Ok(regex.is_match(text)),
            Engine::Program(_) => Ok(engine.find(text)?.is_some()),
        })
    }

    /// The leftmost match.
    pub fn find<'t>(&self, text: &'t str) -> Result<Option<&'t str>, Exhausted> {
        let found = self.with_engine(|engine| engine.find(text))?;
        Ok(found.and_then(|(start, end)| text.get(start..end)))
    }

    /// Positions of non-overlapping matches from left to right, at most `limit`. An empty match directly behind another
    /// does not count.
    pub fn find_all(&self, text: &str, limit: usize) -> Result<Vec<(usize, usize)>, Exhausted> {
        self.with_engine(|engine| engine.find_all(text, limit))
    }

    #[cfg(test)]
    pub(crate) fn piece(&self) -> &Piece {
        &self.0.piece
    }

    fn with_engine<T>(&self, search: impl FnOnce(&Engine) -> T) -> T {
        if let Some(held) = self.0.engine.get() {
            return search(&held.engine);
        }
        let engine = Engine::new(&self.0.piece);
        let held = Held::new(engine);
        if HELD.load(Ordering::Relaxed) > MAX_HELD {
            return search(&held.engine);
        }
        search(&self.0.engine.get_or_init(|| held).engine)
    }
}

impl fmt::Debug for Regexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Regexp").field("size", &self.0.piece.size).finish_non_exhaustive()
    }
}

impl Engine {
    fn new(piece: &Piece) -> Self {
        let affordable = piece.size <= MAX_FOR_AUTOMATON
            && piece.height <= SHALLOW
            && HELD.load(Ordering::Relaxed).saturating_add(SEARCHES) < MAX_HELD;
        match affordable.then(|| automaton::build(piece)).flatten() {
            Some(regex) => Engine::Automaton(regex),
            None => Engine::program(piece),
        }
    }

    fn program(piece: &Piece) -> Self {
        if piece.height <= SHALLOW {
            return Engine::Program(Program::new(piece));
        }
        let deep = || Program::new(piece);
        let compiled = kevel_compute::with_stack((SHALLOW + piece.height) * LEVEL, deep);
        Engine::Program(compiled.unwrap_or_else(deep))
    }

    fn memory(&self) -> usize {
        match self {
            Engine::Automaton(regex) => regex.memory_usage() + SEARCHES,
            Engine::Program(program) => program.memory(),
        }
    }

    /// The first match.
    fn find(&self, text: &str) -> Result<Option<(usize, usize)>, Exhausted> {
        match self {
            Engine::Automaton(regex) => Ok(find_from(regex, text, 0)),
            Engine::Program(program) => Machine::new(program, text).find(0),
        }
    }

    pub(crate) fn find_all(
        &self,
        text: &str,
        limit: usize,
    ) -> Result<Vec<(usize, usize)>, Exhausted> {
        match self {
            Engine::Automaton(regex) => all(text, limit, |from| Ok(find_from(regex, text, from))),
            Engine::Program(program) => {
                let mut machine = Machine::new(program, text);
                all(text, limit, |from| machine.find(from))
            }
        }
    }
}

fn find_from(regex: &meta::Regex, text: &str, from: usize) -> Option<(usize, usize)> {
    let found = regex.find(Input::new(text).span(from..text.len()))?;
    Some((found.start(), found.end()))
}

/// All matches, given a function that finds the first at or after a position.
fn all(
    text: &str,
    limit: usize,
    mut find: impl FnMut(usize) -> Result<Option<(usize, usize)>, Exhausted>,
) -> Result<Vec<(usize, usize)>, Exhausted> {
    let mut all = Vec::new();
    let (mut at, mut last_end) = (0, None);
    while at <= text.len() && all.len() < limit {
        let Some((start, end)) = find(at)? else { break };
        if end > start || last_end != Some(start) {
            all.push((start, end));
        }
        last_end = Some(end);
        let next = || text.get(end..).and_then(|rest| rest.chars().next());
        at = if end > at { end } else { end + next().map_or(1, char::len_utf8) };
    }
    Ok(all)
}
