//! YAML writer, byte for byte in the layout of the reference.

use super::Error;
use super::document::{Document, Id, View};
use super::float::general;
use super::key_order;
use super::style::{Style, style_of};

/// Line length after which lines are broken at the next space.
const WIDTH: usize = 80;
const INDENT: usize = 2;
/// Longest key that is written without a `?`.
const MAX_SIMPLE_KEY: usize = 128;

/// Appends a document whose keys are strings, in about `limit` bytes at most.
pub(super) fn emit(document: &Document<'_>, limit: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let limit = out.len() + limit;
    let mut emitter = Emitter {
        document,
        out,
        column: 0,
        indent: None,
        after_space: true,
        after_indent: true,
        entries: Vec::new(),
        open: Vec::new(),
    };
    emitter.node(0, NodePosition::Root);
    while let Some(&open) = emitter.open.last() {
        emitter.step(open);
        if emitter.out.len() > limit {
            return Err(Error::new("the document to write is nested too deep"));
        }
    }
    emitter.new_line();
    Ok(())
}

struct Emitter<'d> {
    document: &'d Document<'d>,
    out: &'d mut Vec<u8>,
    column: usize,
    indent: Option<usize>,
    /// Whether the last character written was white space.
    after_space: bool,
    /// Whether the line has only indentation and indicators of block collections.
    after_indent: bool,
    /// Key and value of the entries of incomplete mappings.
    entries: Vec<(Id, Id)>,
    open: Vec<Open>,
}

#[derive(Clone, Copy)]
struct Open {
    kind: OpenKind,
    /// Indentation of the enclosing collection.
    outer: Option<usize>,
}

#[derive(Clone, Copy)]
enum OpenKind {
    Sequence { next: Id, end: Id },
    Mapping { base: usize, next: usize },
}

#[derive(Clone, Copy, PartialEq)]
enum NodePosition {
    Root,
    Entry,
    SimpleKey,
    Mapping,
}

impl Emitter<'_> {
    fn step(&mut self, open: Open) {
        kevel_compute::charge(2);
        match open.kind {
            OpenKind::Sequence { next, end } if next == end => self.close(open),
            OpenKind::Sequence { next, end } => {
                let after = self.document.after(next);
                self.replace(OpenKind::Sequence { next: after, end });
                self.new_line();
                self.indicator("-", true, true);
                self.node(next, NodePosition::Entry);
            }
            OpenKind::Mapping { base, next } if next == self.entries.len() => {
                self.entries.truncate(base);
                self.close(open);
            }
            OpenKind::Mapping { base, next } => {
                self.replace(OpenKind::Mapping { base, next: next + 1 });
                let (key, value) = self.entries[next];
                self.new_line();
                let View::Str(name) = self.document.view(key) else { return };
                if name.len() <= MAX_SIMPLE_KEY && !name.contains(is_break) {
                    self.node(key, NodePosition::SimpleKey);
                    self.indicator(":", false, false);
                } else {
                    self.indicator("?", true, true);
                    self.node(key, NodePosition::Mapping);
                    self.new_line();
                    self.indicator(":", true, true);
                }
                self.node(value, NodePosition::Mapping);
            }
        }
    }

    fn replace(&mut self, kind: OpenKind) {
        if let Some(open) = self.open.last_mut() {
            open.kind = kind;
        }
    }

    fn close(&mut self, open: Open) {
        self.indent = open.outer;
        self.open.pop();
    }

    fn node(&mut self, id: Id, place: NodePosition) {
        match self.document.view(id) {
            View::Sequence(end) if end == id + 1 => self.indicator("[]", true, false),
            View::Mapping(end) if end == id + 1 => self.indicator("{}", true, false),
            View::Sequence(end) => {
                let outer = self.indent;
                // A sequence that is a key's value is not indented relative to the key.
                if place != NodePosition::Mapping || self.after_indent {
                    self.indent = Some(outer.map_or(0, |outer| outer + INDENT));
                }
                self.open.push(Open { kind: OpenKind::Sequence { next: id + 1, end }, outer });
            }
            View::Mapping(end) => {
                let outer = self.indent;
                self.indent = Some(outer.map_or(0, |outer| outer + INDENT));
                let base = self.entries.len();
                self.gather(id + 1, end);
                self.open.push(Open { kind: OpenKind::Mapping { base, next: base }, outer });
            }
            View::Null | View::Alias(_) | View::Cycle(_) | View::Fault(_) => self.plain("null"),
            View::Bool(is) => self.plain(if is { "true" } else { "false" }),
            View::Int(int) => self.plain(&int.to_string()),
            View::Uint(uint) => self.plain(&uint.to_string()),
            View::Float(float) => self.plain(&general(float)),
            View::Str(text) => {
                let outer = self.indent;
                self.indent = Some(outer.map_or(INDENT, |outer| outer + INDENT));
                self.string(text, place);
                self.indent = outer;
            }
        }
    }

    fn gather(&mut self, mut next: Id, end: Id) {
        let base = self.entries.len();
        while next < end {
            let value = self.document.after(next);
            self.entries.push((next, value));
            next = self.document.after(value);
        }
        let document = self.document;
        let name = |&(key, _): &(Id, Id)| match document.view(key) {
            View::Str(text) => text,
            _ => "",
        };
        // Of equal keys the last one counts; the plain order brings them together first.
        let entries = &mut self.entries[base..];
        if entries.is_sorted_by(|a, b| name(a) < name(b)) {
            return key_order::merge_sort(entries, |a, b| key_order::before(name(a), name(b)));
        }
        entries.sort_unstable_by(|a, b| name(a).cmp(name(b)).then(b.0.cmp(&a.0)));
        let mut kept = 0;
        for at in 0..entries.len() {
            if kept == 0 || name(&entries[kept - 1]) != name(&entries[at]) {
                entries[kept] = entries[at];
                kept += 1;
            }
        }
        self.entries.truncate(base + kept);
        let entries = &mut self.entries[base..];
        key_order::merge_sort(entries, |a, b| key_order::before(name(a), name(b)));
    }

    fn string(&mut self, text: &str, place: NodePosition) {
        let may_break = place != NodePosition::SimpleKey;
        match style_of(text).choose(text, may_break) {
            Style::Plain => self.plain_string(text, may_break),
            Style::SingleQuoted => self.single_quoted(text, may_break),
            Style::DoubleQuoted => self.double_quoted(text, may_break),
            Style::Literal => self.literal(text),
        }
    }

    fn plain(&mut self, text: &str) {
        self.space();
        self.put(text);
        self.after_space = false;
        self.after_indent = false;
    }

    fn plain_string(&mut self, text: &str, may_break: bool) {
        self.space();
        self.folded(text, may_break, |_, _| {});
        self.after_space = false;
        self.after_indent = false;
    }

    fn single_quoted(&mut self, text: &str, may_break: bool) {
        self.indicator("'", true, false);
        self.folded(text, may_break, |emitter, c| {
            if c == '\'' {
                emitter.put("'");
            }
        });
        self.indicator("'", false, false);
    }

    /// Writes a text whose lines may be broken at single spaces inside it.
    fn folded(&mut self, text: &str, may_break: bool, mut before: impl FnMut(&mut Self, char)) {
        let mut spaces = false;
        let mut breaks = false;
        for (at, c) in text.char_indices() {
            let rest = &text[at + c.len_utf8()..];
            if c == ' ' {
                let inside = at > 0 && !rest.is_empty() && !rest.starts_with(' ');
                if may_break && !spaces && self.column > WIDTH && inside {
                    self.new_line();
                } else {
                    self.put(" ");
                }
                spaces = true;
            } else if is_break(c) {
                // Only LS and PS occur here: text with other breaks is not written this way.
                self.put_char(c);
                self.column = 0;
                self.after_indent = true;
                breaks = true;
            } else {
                if breaks {
                    self.new_line();
                }
                before(self, c);
                self.put_char(c);
                self.after_indent = false;
                spaces = false;
                breaks = false;
            }
        }
    }

    fn double_quoted(&mut self, text: &str, may_break: bool) {
        self.indicator("\"", true, false);
        // After a leading byte order mark the reference treats every character as one.
        let escape_all = text.starts_with('\u{feff}');
        let mut spaces = false;
        for (at, c) in text.char_indices() {
            let rest = &text[at + c.len_utf8()..];
            if escape_all || !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                self.escaped(c);
                spaces = false;
            } else if c == ' ' {
                if may_break && !spaces && self.column > WIDTH && at > 0 && !rest.is_empty() {
                    self.new_line();
                    if rest.starts_with(' ') {
                        self.put("\\");
                    }
                } else {
                    self.put(" ");
                }
                spaces = true;
            } else {
                self.put_char(c);
                spaces = false;
            }
        }
        self.indicator("\"", false, false);
    }

    fn escaped(&mut self, c: char) {
        let short = match c {
            '\0' => "\\0",
            '\x07' => "\\a",
            '\x08' => "\\b",
            '\t' => "\\t",
            '\n' => "\\n",
            '\x0b' => "\\v",
            '\x0c' => "\\f",
            '\r' => "\\r",
            '\x1b' => "\\e",
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{85}' => "\\N",
            '\u{a0}' => "\\_",
            '\u{2028}' => "\\L",
            '\u{2029}' => "\\P",
            _ => {
                let code = u32::from(c);
                return self.put(&match code {
                    0..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                });
            }
        };
        self.put(short);
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false);
        if text.starts_with([' ', '\n', '\u{2028}', '\u{2029}']) {
            self.put("2");
        }
        let mut ends = text.chars().rev().map(is_break);
        match (ends.next(), ends.next()) {
            (Some(true), Some(false)) => {}
            (Some(true), _) => self.put("+"),
            _ => self.put("-"),
        }
        self.put_break();
        self.after_indent = true;
        self.after_space = true;
        let mut breaks = true;
        for c in text.chars() {
            if is_break(c) {
                if c == '\n' {
                    self.put_break();
                } else {
                    self.put_char(c);
                    self.column = 0;
                }
                self.after_indent = true;
                breaks = true;
            } else {
                if breaks {
                    self.new_line();
                }
                self.put_char(c);
                self.after_indent = false;
                breaks = false;
            }
        }
    }

    /// Moves to the indentation, on a new line if needed.
    fn new_line(&mut self) {
        let indent = self.indent.unwrap_or(0);
        let behind = self.column > indent || self.column == indent && !self.after_space;
        if !self.after_indent || behind {
            self.put_break();
        }
        self.out.resize(self.out.len() + indent.saturating_sub(self.column), b' ');
        self.column = self.column.max(indent);
        self.after_space = true;
        self.after_indent = true;
    }

    fn indicator(&mut self, indicator: &str, spaced: bool, indents: bool) {
        if spaced {
            self.space();
        }
        self.put(indicator);
        self.after_space = false;
        self.after_indent &= indents;
    }

    fn space(&mut self) {
        if !self.after_space {
            self.put(" ");
        }
    }

    /// Writes one-byte characters.
    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.column += text.len();
    }

    fn put_char(&mut self, c: char) {
        self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        self.column += 1;
    }

    fn put_break(&mut self) {
        self.out.push(b'\n');
        self.column = 0;
    }
}

/// Whether a character is a line break in YAML 1.1.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether the reference writes a character unescaped. Characters beyond the basic plane are escaped.
pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{fffd}') && c != '\u{feff}'
}
