//! Parser of Go's syntax (RE2's with Perl's extensions): reads expressions in one pass, with an explicit stack of
//! groups, and rejects an expression as soon as it exceeds a limit.

use std::sync::Arc;

use crate::class::Class;
use crate::error::{Code, SyntaxError};
use crate::flags::Flags;
use crate::reader::Reader;
use crate::runes::{MAX_RUNE, Runes};
use crate::tree::{Look, Piece, Repeat};
use crate::{MAX_COPIES, MAX_HEIGHT, MAX_LENGTH, MAX_RUNES, MAX_SIZE};

/// Maximum number of ranges of a class to which another alternative is merged. Each merge copies it: many
/// single-character alternatives would take quadratic time.
const MAX_MERGED: usize = 64;

/// Parses an expression.
pub(crate) fn parse(pattern: &str) -> Result<Piece, SyntaxError> {
    if pattern.len() > MAX_LENGTH {
        return Err(SyntaxError::new(Code::Large, pattern));
    }
    let group = Group::default();
    let mut parser =
        Parser { group, outer: Vec::new(), flags: Flags::default(), runes: 0, pattern };
    let mut reader = Reader::new(pattern);
    let mut last_repeat = None;
    while let Some(character) = reader.peek() {
        last_repeat = parser.step(&mut reader, character, last_repeat)?;
    }
    parser.finish()
}

/// Group that is being parsed: its finished alternatives, and the pieces of the present one.
#[derive(Debug, Default)]
struct Group {
    captures: bool,
    /// Flags to restore behind the group.
    flags: Flags,
    branches: Vec<Piece>,
    sequence: Vec<Piece>,
}

struct Parser<'p> {
    group: Group,
    outer: Vec<Group>,
    flags: Flags,
    /// Number of code points of all pieces so far.
    runes: usize,
    pattern: &'p str,
}

impl<'p> Parser<'p> {
    /// Parses the next token. Returns the position of the repetition, if it was one.
    fn step(
        &mut self,
        reader: &mut Reader<'p>,
        character: char,
        last_repeat: Option<usize>,
    ) -> Result<Option<usize>, SyntaxError> {
        let start = reader.at();
        match character {
            '(' if reader.rest().starts_with("(?") => self.perl_group(reader)?,
            '(' => {
                reader.next();
                self.open(true);
            }
            ')' => {
                reader.next();
                self.close()?;
            }
            '|' => {
                reader.next();
                self.branch()?;
            }
            '[' => {
                let class = reader.class(self.flags)?;
                self.push(Piece::class(class))?;
            }
            '\\' => self.escape(reader)?,
            '*' | '+' | '?' => {
                reader.next();
                let repeat = match character {
                    '*' => Repeat::Star,
                    '+' => Repeat::Plus,
                    _ => Repeat::Optional,
                };
                self.repeat(reader, repeat, start, last_repeat)?;
                return Ok(Some(start));
            }
            '{' => match reader.counts() {
                None => {
                    reader.next();
                    self.literal('{')?;
                }
                Some(counts) => {
                    let (Some(min), max) = counts.bounds() else {
                        let repeat = reader.since(start);
                        return Err(SyntaxError::new(Code::InvalidRepeatSize, repeat));
                    };
                    let repeat = Repeat::Counted { min, max };
                    self.repeat(reader, repeat, start, last_repeat)?;
                    return Ok(Some(start));
                }
            },
            '^' | '$' | '.' => {
                reader.next();
                self.push(self.symbol(character))?;
            }
            _ => {
                reader.next();
                self.literal(character)?;
            }
        }
        Ok(None)
    }

    fn symbol(&self, character: char) -> Piece {
        match (character, self.flags.multi_line) {
            ('^', true) => Piece::look(Look::BeginLine),
            ('^', false) => Piece::look(Look::BeginText),
            ('$', true) => Piece::look(Look::EndLine),
            ('$', false) => Piece::look(Look::EndText),
            _ if self.flags.dot_newline => any(vec![(0, MAX_RUNE)]),
            _ => any(vec![(0, 0x09), (0x0B, MAX_RUNE)]),
        }
    }

    fn escape(&mut self, reader: &mut Reader<'p>) -> Result<(), SyntaxError> {
        let look = match reader.second() {
            Some('A') => Look::BeginText,
            Some('z') => Look::EndText,
            Some('b') => Look::WordBoundary,
            Some('B') => Look::NoWordBoundary,
            Some('Q') => {
                for character in reader.quoted().chars() {
                    self.literal(character)?;
                }
                return Ok(());
            }
            _ => {
                if let Some(runes) = reader.class_escape(self.flags)? {
                    return self.push(Piece::class(Class::Whole(runes)));
                }
                let rune = reader.escape()?;
                return self.push(Piece::literal(rune, self.flags.fold));
            }
        };
        reader.skip(2);
        self.push(Piece::look(look))
    }

    fn literal(&mut self, character: char) -> Result<(), SyntaxError> {
        self.push(Piece::literal(character.into(), self.flags.fold))
    }

    /// Appends a piece to the sequence. Literals before it are merged: no repetition can apply to the last of them any
    /// more.
    fn push(&mut self, piece: Piece) -> Result<(), SyntaxError> {
        self.check(&piece)?;
        self.merge_literals();
        self.group.sequence.push(piece);
        Ok(())
    }

    fn merge_literals(&mut self) {
        let sequence = &mut self.group.sequence;
        let Some(last) = sequence.pop() else { return };
        let left = match sequence.last_mut() {
            Some(before) => before.append(last),
            None => Some(last),
        };
        sequence.extend(left);
    }

    fn check(&mut self, piece: &Piece) -> Result<(), SyntaxError> {
        self.runes += piece.runes();
        if self.runes > MAX_RUNES || piece.size > MAX_SIZE {
            return Err(SyntaxError::new(Code::Large, self.pattern));
        }
        if piece.height > MAX_HEIGHT {
            return Err(SyntaxError::new(Code::NestingDepth, self.pattern));
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        reader: &mut Reader<'p>,
        repeat: Repeat,
        start: usize,
        last_repeat: Option<usize>,
    ) -> Result<(), SyntaxError> {
        let lazy = reader.take('?') != self.flags.lazy;
        if let Some(first) = last_repeat {
            return Err(SyntaxError::new(Code::InvalidRepeatOperator, reader.since(first)));
        }
        let operator = reader.since(start);
        let Some(piece) = self.group.sequence.pop() else {
            return Err(SyntaxError::new(Code::MissingRepeatArgument, operator));
        };
        let piece = piece.repeat(repeat, !lazy);
        self.check(&piece)?;
        let (min, max) = repeat.bounds();
        if (min >= 2 || max.is_some_and(|max| max >= 2)) && piece.copies > MAX_COPIES {
            return Err(SyntaxError::new(Code::InvalidRepeatSize, operator));
        }
        self.group.sequence.push(piece);
        Ok(())
    }

    fn open(&mut self, captures: bool) {
        let group = Group { captures, flags: self.flags, ..Group::default() };
        self.outer.push(std::mem::replace(&mut self.group, group));
    }

    /// `(?P<name>`, `(?<name>`, `(?:`, `(?i:` and `(?i)`.
    fn perl_group(&mut self, reader: &mut Reader<'p>) -> Result<(), SyntaxError> {
        if reader.take_group_name()? {
            self.open(true);
            return Ok(());
        }
        let start = reader.at();
        reader.skip(2);
        let mut flags = self.flags;
        let (mut value, mut any) = (true, false);
        while let Some(character) = reader.next() {
            match character {
                'i' => flags.fold = value,
                'm' => flags.multi_line = value,
                's' => flags.dot_newline = value,
                'U' => flags.lazy = value,
                '-' if value => {
                    (value, any) = (false, false);
                    continue;
                }
                ':' | ')' if value || any => {
                    if character == ':' {
                        self.open(false);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            any = true;
        }
        Err(SyntaxError::new(Code::InvalidPerlOperator, reader.since(start)))
    }

    /// Ends an alternative. Neighbouring alternatives of one character each are merged into one class.
    fn branch(&mut self) -> Result<(), SyntaxError> {
        self.merge_literals();
        let piece = Piece::concat(std::mem::take(&mut self.group.sequence));
        self.check(&piece)?;
        let before = self.group.branches.last().and_then(Piece::one_character);
        match (before, piece.one_character()) {
            (Some(before), Some(runes)) if before.ranges().len() < MAX_MERGED => {
                self.group.branches.pop();
                let both = Class::Whole(Arc::new(before.union(&runes)));
                self.group.branches.push(Piece::class(both));
            }
            _ => self.group.branches.push(piece),
        }
        Ok(())
    }

    /// The whole present group.
    fn group(&mut self) -> Result<Piece, SyntaxError> {
        self.branch()?;
        let piece = Piece::alternate(std::mem::take(&mut self.group.branches));
        self.check(&piece)?;
        Ok(piece)
    }

    fn close(&mut self) -> Result<(), SyntaxError> {
        let piece = self.group()?;
        let Some(outer) = self.outer.pop() else {
            return Err(SyntaxError::new(Code::UnexpectedParenthesis, self.pattern));
        };
        let group = std::mem::replace(&mut self.group, outer);
        self.flags = group.flags;
        self.push(if group.captures { piece.capture() } else { piece })
    }

    fn finish(mut self) -> Result<Piece, SyntaxError> {
        let piece = self.group()?;
        if !self.outer.is_empty() {
            return Err(SyntaxError::new(Code::MissingParenthesis, self.pattern));
        }
        Ok(piece)
    }
}

fn any(ranges: Vec<(u32, u32)>) -> Piece {
    Piece::class(Class::Whole(Arc::new(Runes::new(ranges))))
}
