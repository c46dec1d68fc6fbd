//! Machine that runs programs (upstream: regexp's NFA): it reads a text once and follows all alternatives at a time, in
//! order of preference. Time is linear in the text for a given program.

use crate::error::Exhausted;
use crate::program::{Instruction, Program};
use crate::tree::Look;

/// Limit on the steps of all searches of a text: half a second. Megabytes of text with a program of thousands of
/// instructions exceed it.
const MAX_STEPS: u64 = 50_000_000;

/// Alternatives that are followed, in order, each with the start of its match.
#[derive(Debug)]
struct Threads {
    list: Vec<(u32, usize)>,
    /// Round in which an instruction was added to the list.
    seen: Vec<u32>,
    round: u32,
}

impl Threads {
    fn new(instructions: usize) -> Self {
        Threads { list: Vec::new(), seen: vec![0; instructions], round: 1 }
    }

    fn clear(&mut self) {
        self.list.clear();
        match self.round.checked_add(1) {
            Some(round) => self.round = round,
            None => {
                self.seen.fill(0);
                self.round = 1;
            }
        }
    }

    /// Whether an instruction was not added in this round yet; marks it.
    fn note(&mut self, instruction: u32) -> bool {
        match self.seen.get_mut(instruction as usize) {
            Some(seen) if *seen != self.round => {
                *seen = self.round;
                true
            }
            _ => false,
        }
    }
}

/// A run of a program on a text. Its lists are as long as the program, and are allocated once for all matches.
pub(crate) struct Machine<'a> {
    program: &'a Program,
    text: &'a str,
    now: Threads,
    next: Threads,
    stack: Vec<u32>,
    steps: u64,
}

impl<'a> Machine<'a> {
    pub fn new(program: &'a Program, text: &'a str) -> Self {
        let count = program.instructions.len();
        let (now, next) = (Threads::new(count), Threads::new(count));
        Machine { program, text, now, next, stack: Vec::new(), steps: 0 }
    }

    /// Start and end of the first match at or after a position.
    pub fn find(&mut self, from: usize) -> Result<Option<(usize, usize)>, Exhausted> {
        let mut found = None;
        let mut place = TextPosition::new(self.text, from);
        self.now.clear();
        self.next.clear();
        loop {
            if found.is_none() && (!self.program.anchored || place.at == 0) {
                self.follow(self.program.start, place.at, &place, false);
            }
            if self.now.list.is_empty() && (found.is_some() || self.program.anchored) {
                return Ok(found);
            }
            let (after, before) = (place.advanced(self.text), self.steps);
            found = self.step(&place, after.as_ref()).or(found);
            kevel_compute::charge((self.steps - before) as usize);
            if self.steps > MAX_STEPS {
                return Err(Exhausted);
            }
            let Some(after) = after else { return Ok(found) };
            place = after;
            std::mem::swap(&mut self.now, &mut self.next);
            self.next.clear();
        }
    }

    /// Lets all alternatives read the next character; a match ends those after it in the list.
    fn step(
        &mut self,
        place: &TextPosition,
        after: Option<&TextPosition>,
    ) -> Option<(usize, usize)> {
        for index in 0..self.now.list.len() {
            let (instruction, start) = self.now.list.get(index).copied()?;
            self.steps += 1;
            let goes_on = match self.program.instructions.get(instruction as usize)? {
                Instruction::Match => return Some((start, place.at)),
                Instruction::Rune { rune, next } => {
                    (place.next.map(u32::from) == Some(*rune)).then_some(*next)
                }
                Instruction::Class { class, next } => {
                    let class = self.program.classes.get(*class as usize)?;
                    place.next.is_some_and(|c| class.contains(c.into())).then_some(*next)
                }
                _ => None,
            };
            if let (Some(goes_on), Some(after)) = (goes_on, after) {
                self.follow(goes_on, start, after, true);
            }
        }
        None
    }

    /// Adds an instruction, or those that it leads to without reading a character, to the list of the next character or
    /// of this one.
    fn follow(&mut self, from: u32, start: usize, place: &TextPosition, next: bool) {
        let threads = if next { &mut self.next } else { &mut self.now };
        self.stack.push(from);
        while let Some(at) = self.stack.pop() {
            if !threads.note(at) {
                continue;
            }
            self.steps += 1;
            match self.program.instructions.get(at as usize) {
                Some(Instruction::Split { first, second }) => self.stack.extend([*second, *first]),
                Some(Instruction::Look { look, next }) if place.is(*look) => self.stack.push(*next),
                Some(Instruction::Look { .. } | Instruction::Fail) | None => {}
                Some(_) => threads.list.push((at, start)),
            }
        }
    }
}

/// A position between two characters of the text.
struct TextPosition {
    at: usize,
    previous: Option<char>,
    next: Option<char>,
}

impl TextPosition {
    fn new(text: &str, at: usize) -> Self {
        let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
        TextPosition { at, previous: before.chars().next_back(), next: after.chars().next() }
    }

    fn advanced(&self, text: &str) -> Option<TextPosition> {
        let previous = self.next?;
        let at = self.at + previous.len_utf8();
        let next = text.get(at..).and_then(|rest| rest.chars().next());
        Some(TextPosition { at, previous: Some(previous), next })
    }

    fn is(&self, look: Look) -> bool {
        match look {
            Look::BeginText => self.previous.is_none(),
            Look::EndText => self.next.is_none(),
            Look::BeginLine => self.previous.is_none_or(|c| c == '\n'),
            Look::EndLine => self.next.is_none_or(|c| c == '\n'),
            Look::WordBoundary => is_word(self.previous) != is_word(self.next),
            Look::NoWordBoundary => is_word(self.previous) == is_word(self.next),
        }
    }
}

fn is_word(character: Option<char>) -> bool {
    character.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
}
