//! Scanning of scalars: plain, quoted, and block.

use super::Error;
use super::scanner::{Scanner, Text};

impl Scanner<'_> {
    pub(super) fn plain_scalar(&mut self) -> Result<Text, Error> {
        let start = self.at;
        let end = self.plain_run();
        self.skip_to(end);
        if !self.is_blank() && self.break_len(0) == 0 {
            // Most scalars are a single word.
            return Ok(Text { in_scratch: false, start: start as u32, len: (end - start) as u32 });
        }
        self.plain_words(start)
    }

    /// Scans the rest of a plain scalar after its first word.
    fn plain_words(&mut self, start: usize) -> Result<Text, Error> {
        let indent = self.indent + 1;
        let mut text = Builder { built: false, start, end: self.at };
        let mut fold = Fold::default();
        loop {
            loop {
                if self.is_blank() {
                    let tab = self.byte(0) == b'\t';
                    if tab && fold.started && i64::from(self.column) < indent {
                        let problem = "found a tab character that violates indentation";
                        return Err(self.error(problem));
                    }
                    self.skip(1);
                } else if self.break_len(0) > 0 {
                    fold.take(self);
                } else {
                    break;
                }
            }
            let outdented = !self.in_flow() && i64::from(self.column) < indent;
            if outdented || self.byte(0) == b'#' || self.at_marker(b"---") || self.at_marker(b"...")
            {
                break;
            }
            let start = self.at;
            let end = self.plain_run();
            if end > start {
                if fold.started {
                    text.fold(self, &mut fold);
                } else if text.built {
                    // Blanks inside a line are kept.
                    let blanks = &self.source[text.end..start];
                    self.scratch.push_str(blanks);
                }
                self.skip_to(end);
                text.extend(self, start);
            }
            if !self.is_blank() && self.break_len(0) == 0 {
                break;
            }
        }
        if fold.started {
            self.key_allowed = true;
        }
        Ok(text.finish(self))
    }

    /// End of the plain characters here, up to a blank.
    fn plain_run(&self) -> usize {
        let bytes = self.source.as_bytes();
        let in_flow = self.in_flow();
        let mut end = self.at;
        while let Some(&byte) = bytes.get(end) {
            let ends = match byte {
                b' ' | b'\t' | b'\n' | b'\r' => true,
                b':' => self.is_blank_or_end(end + 1 - self.at),
                b',' | b'?' | b'[' | b']' | b'{' | b'}' => in_flow,
                0xc2 | 0xe2 => self.break_len(end - self.at) > 0,
                _ => false,
            };
            if ends {
                break;
            }
            end += 1;
        }
        end
    }

    pub(super) fn quoted_scalar(&mut self, quote: u8) -> Result<Text, Error> {
        self.skip(1);
        let mut text = Builder::new(self);
        let mut fold = Fold::default();
        loop {
            if self.at_marker(b"---") || self.at_marker(b"...") {
                return Err(self.error("found unexpected document indicator"));
            }
            if self.byte(0) == 0 {
                return Err(self.error("found unexpected end of stream"));
            }
            self.quoted_run(quote, &mut text, &mut fold)?;
            if self.byte(0) == quote {
                break;
            }
            let blanks = self.at;
            loop {
                if self.is_blank() {
                    self.skip(1);
                } else if self.break_len(0) > 0 {
                    fold.take(self);
                } else {
                    break;
                }
            }
            if fold.started {
                text.fold(self, &mut fold);
            } else {
                text.extend(self, blanks);
            }
        }
        let text = text.finish(self);
        self.skip(1);
        Ok(text)
    }

    /// Scans characters up to a blank, a line break or the closing quote.
    fn quoted_run(&mut self, quote: u8, text: &mut Builder, fold: &mut Fold) -> Result<(), Error> {
        loop {
            let start = self.at;
            let bytes = self.source.as_bytes();
            let mut end = start;
            while let Some(&byte) = bytes.get(end) {
                let ends = match byte {
                    b' ' | b'\t' | b'\n' | b'\r' => true,
                    b'\\' => quote == b'"',
                    0xc2 | 0xe2 => self.break_len(end - start) > 0,
                    _ => byte == quote,
                };
                if ends {
                    break;
                }
                end += 1;
            }
            self.skip_to(end);
            text.extend(self, start);
            match self.byte(0) {
                b'\'' if quote == b'\'' && self.byte(1) == b'\'' => {
                    text.push(self, '\'');
                    self.skip(2);
                }
                b'\\' if quote == b'"' && self.break_len(1) > 0 => {
                    text.build(self);
                    self.skip(1);
                    self.skip_break();
                    fold.started = true;
                    return Ok(());
                }
                b'\\' if quote == b'"' => {
                    let c = self.escape()?;
                    text.push(self, c);
                }
                _ => return Ok(()),
            }
        }
    }

    /// Scans a backslash escape.
    fn escape(&mut self) -> Result<char, Error> {
        let c = match self.byte(1) {
            b'0' => '\0',
            b'a' => '\x07',
            b'b' => '\x08',
            b't' | b'\t' => '\t',
            b'n' => '\n',
            b'v' => '\x0b',
            b'f' => '\x0c',
            b'r' => '\r',
            b'e' => '\x1b',
            c @ (b' ' | b'"' | b'\'' | b'\\') => c as char,
            b'N' => '\u{85}',
            b'_' => '\u{a0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' => return self.coded_escape(2),
            b'u' => return self.coded_escape(4),
            b'U' => return self.coded_escape(8),
            _ => return Err(self.error("found unknown escape character")),
        };
        self.skip(2);
        Ok(c)
    }

    fn coded_escape(&mut self, digits: u32) -> Result<char, Error> {
        self.skip(2);
        let mut value = 0;
        for at in 0..digits {
            let Some(digit) = (self.byte(at as usize) as char).to_digit(16) else {
                return Err(self.error("did not find expected hexdecimal number"));
            };
            value = value << 4 | digit;
        }
        let Some(c) = char::from_u32(value) else {
            return Err(self.error("found invalid Unicode character escape code"));
        };
        self.skip(digits);
        Ok(c)
    }

    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<Text, Error> {
        self.skip(1);
        let (chomp, increment) = self.block_header()?;
        let mut indent = match increment {
            0 => 0,
            increment => self.indent.max(0) + increment,
        };
        let mut text = Builder::new(self);
        text.build(self);
        let mut first = None;
        let mut rest = String::new();
        self.block_breaks(&mut indent, &mut rest)?;
        let mut after_blank = false;
        while i64::from(self.column) == indent && self.byte(0) != 0 {
            let blank = self.is_blank();
            match first.take() {
                Some("\n") if !literal && !after_blank && !blank => {
                    self.scratch.push_str(if rest.is_empty() { " " } else { "" });
                }
                Some(line_break) => self.scratch.push_str(line_break),
                None => {}
            }
            self.scratch.push_str(&rest);
            rest.clear();
            after_blank = blank;
            let start = self.at;
            self.skip_line();
            self.scratch.push_str(&self.source[start..self.at]);
            first = self.take_break();
            self.block_breaks(&mut indent, &mut rest)?;
        }
        if chomp != Chomp::Strip {
            self.scratch.push_str(first.unwrap_or_default());
        }
        if chomp == Chomp::Keep {
            self.scratch.push_str(&rest);
        }
        Ok(text.finish(self))
    }

    /// Scans the header after `|` or `>`: chomping, and the indentation if it is given.
    fn block_header(&mut self) -> Result<(Chomp, i64), Error> {
        let mut chomp = self.chomp();
        let mut increment = 0;
        if self.byte(0).is_ascii_digit() {
            increment = i64::from(self.byte(0) - b'0');
            if increment == 0 {
                return Err(self.error("found an indentation indicator equal to 0"));
            }
            self.skip(1);
            chomp = chomp.or_else(|| self.chomp());
        }
        self.skip_blanks();
        self.skip_comment();
        if !self.is_break_or_end() {
            return Err(self.error("did not find expected comment or line break"));
        }
        self.skip_break();
        Ok((chomp.unwrap_or(Chomp::Clip), increment))
    }

    fn chomp(&mut self) -> Option<Chomp> {
        let chomp = match self.byte(0) {
            b'+' => Chomp::Keep,
            b'-' => Chomp::Strip,
            _ => return None,
        };
        self.skip(1);
        Some(chomp)
    }

    /// Skips indentation and empty lines, and determines the indentation if it is unknown (0).
    fn block_breaks(&mut self, indent: &mut i64, breaks: &mut String) -> Result<(), Error> {
        let mut deepest = 0;
        loop {
            let inside = |s: &Self| *indent == 0 || i64::from(s.column) < *indent;
            while inside(self) && self.byte(0) == b' ' {
                self.skip(1);
            }
            deepest = deepest.max(i64::from(self.column));
            if inside(self) && self.byte(0) == b'\t' {
                let problem = "found a tab character where an indentation space is expected";
                return Err(self.error(problem));
            }
            match self.take_break() {
                Some(line_break) => breaks.push_str(line_break),
                None => break,
            }
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        Ok(())
    }

    /// Consumes a line break; returns its form in a scalar.
    fn take_break(&mut self) -> Option<&'static str> {
        let line_break = match (self.break_len(0), self.byte(2)) {
            (0, _) => return None,
            (3, 0xa8) => "\u{2028}",
            (3, _) => "\u{2029}",
            _ => "\n",
        };
        self.skip_break();
        Some(line_break)
    }
}

/// Chomping: treatment of line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq)]
enum Chomp {
    Strip,
    Clip,
    Keep,
}

/// Text of a scalar under construction: a slice of the source as long as possible.
struct Builder {
    built: bool,
    start: usize,
    /// End of the last part of the source in the text.
    end: usize,
}

impl Builder {
    fn new(scanner: &Scanner<'_>) -> Self {
        Builder { built: false, start: scanner.at, end: scanner.at }
    }

    /// Adds the source from `start` up to the position.
    fn extend(&mut self, scanner: &mut Scanner<'_>, start: usize) {
        if self.built {
            let run = &scanner.source[start..scanner.at];
            scanner.scratch.push_str(run);
        }
        self.end = scanner.at;
    }

    fn push(&mut self, scanner: &mut Scanner<'_>, c: char) {
        self.build(scanner);
        scanner.scratch.push(c);
    }

    fn fold(&mut self, scanner: &mut Scanner<'_>, fold: &mut Fold) {
        self.build(scanner);
        fold.join(&mut scanner.scratch);
    }

    /// Moves the text to the scratch space.
    fn build(&mut self, scanner: &mut Scanner<'_>) {
        if !self.built {
            let text = &scanner.source[self.start..self.end];
            self.start = scanner.scratch.len();
            self.built = true;
            scanner.scratch.push_str(text);
        }
    }

    fn finish(self, scanner: &Scanner<'_>) -> Text {
        let end = if self.built { scanner.scratch.len() } else { self.end };
        Text { in_scratch: self.built, start: self.start as u32, len: (end - self.start) as u32 }
    }
}

/// Line breaks inside a flow scalar: one becomes a space, more become one less.
#[derive(Default)]
struct Fold {
    started: bool,
    first: Option<&'static str>,
    rest: String,
}

impl Fold {
    fn take(&mut self, scanner: &mut Scanner<'_>) {
        let line_break = scanner.take_break();
        if self.started {
            self.rest.push_str(line_break.unwrap_or_default());
        } else {
            self.first = line_break;
            self.started = true;
        }
    }

    fn join(&mut self, out: &mut String) {
        match self.first.take() {
            Some("\n") if self.rest.is_empty() => out.push(' '),
            Some("\n") => {}
            first => out.push_str(first.unwrap_or_default()),
        }
        out.push_str(&self.rest);
        self.rest.clear();
        self.started = false;
    }
}
