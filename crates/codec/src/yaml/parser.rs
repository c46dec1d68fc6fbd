//! YAML parser by libyaml's grammar: tokens to nodes, with nested collections on a stack of states.

use std::collections::HashMap;

use super::Error;
use super::document::{Document, Id};
use super::reader::Input;
use super::resolve::{Resolved, Tag, implicit as implicit_type, resolve};
use super::scanner::{Lexeme, Scanner, Text, Token};
use super::tag;
use crate::base64;

/// Parses the first document of a stream; `null` if there is none.
pub(super) fn parse<'a>(input: &'a Input<'_>) -> Result<Document<'a>, Error> {
    let scanner = Scanner::new(&input.text, input.unreadable);
    let mut parser = Parser {
        scanner,
        document: Document::new(&input.text),
        states: Vec::new(),
        open: Vec::new(),
        anchors: HashMap::new(),
        handles: Vec::new(),
    };
    parser.document()?;
    let mut document = parser.document;
    document.scratch = parser.scanner.scratch;
    document.nodes.shrink_to_fit();
    Ok(document)
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    document: Document<'a>,
    /// States to continue with when the current node is complete.
    states: Vec<State>,
    /// Incomplete collections.
    open: Vec<Id>,
    anchors: HashMap<&'a str, Id>,
    /// Tag handles and their prefixes.
    handles: Vec<(&'a str, &'a str)>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    BlockEntry,
    /// An entry of a sequence that is not indented relative to its key.
    IndentlessEntry,
    BlockKey,
    BlockValue,
    FlowEntry {
        first: bool,
    },
    /// `[a: b]` is a list with a mapping.
    PairKey,
    PairValue,
    PairEnd,
    FlowKey {
        first: bool,
    },
    FlowValue,
    /// The value of a key without a `:`.
    FlowNoValue,
}

/// Nodes that are allowed at a position.
#[derive(Clone, Copy, PartialEq)]
enum Allow {
    Flow,
    Block,
    BlockOrIndentless,
}

impl<'a> Parser<'a> {
    fn document(&mut self) -> Result<(), Error> {
        let explicit = match self.peek()?.token {
            Token::StreamEnd => {
                self.document.push_null(0);
                return Ok(());
            }
            Token::Version { .. } | Token::TagDirective { .. } | Token::DocumentStart => true,
            _ => false,
        };
        self.directives()?;
        let mut content = true;
        if explicit {
            let lexeme = self.peek()?;
            if !matches!(lexeme.token, Token::DocumentStart) {
                let line = lexeme.line;
                return Err(Error::on_line(line, "did not find expected <document start>"));
            }
            self.take();
            content = !matches!(
                self.peek()?.token,
                Token::Version { .. }
                    | Token::TagDirective { .. }
                    | Token::DocumentStart
                    | Token::DocumentEnd
                    | Token::StreamEnd
            );
        }
        if content {
            self.node(Allow::Block)?;
        } else {
            self.document.push_null(0);
        }
        while let Some(state) = self.states.pop() {
            self.step(state)?;
            // A step adds two nodes at most, and the list of nodes doubles when it is full.
            if self.document.nodes.len() + 2 > MAX_NODES {
                return Err(Error::new(format!("document has more than {MAX_NODES} nodes")));
            }
        }
        // A valid token must follow, but is not used: other documents, or anything else.
        self.peek()?;
        Ok(())
    }

    fn directives(&mut self) -> Result<(), Error> {
        let mut version = false;
        loop {
            let line = self.peek()?.line;
            match self.peek()?.token {
                Token::Version { .. } if version => {
                    return Err(Error::on_line(line, "found duplicate %YAML directive"));
                }
                Token::Version { major: 1, minor: 1 } => version = true,
                Token::Version { .. } => {
                    return Err(Error::on_line(line, "found incompatible YAML document"));
                }
                Token::TagDirective { .. } => {}
                _ => break,
            }
            if let Some(Lexeme { token: Token::TagDirective { handle, prefix }, .. }) = self.take()
            {
                if self.handles.iter().any(|(known, _)| *known == handle) {
                    return Err(Error::on_line(line, "found duplicate %TAG directive"));
                }
                // The reference searches all of them each time; real documents do not have as many.
                if self.handles.len() == MAX_HANDLES {
                    return Err(Error::on_line(line, "found too many %TAG directives"));
                }
                self.handles.push((handle, prefix));
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.handles.iter().any(|(known, _)| *known == handle) {
                self.handles.push((handle, prefix));
            }
        }
        Ok(())
    }

    fn step(&mut self, state: State) -> Result<(), Error> {
        kevel_compute::charge(2);
        match state {
            State::BlockEntry => self.block_entry(),
            State::IndentlessEntry => self.indentless_entry(),
            State::BlockKey => self.block_key(),
            State::BlockValue => self.block_value(),
            State::FlowEntry { first } => self.flow_entry(first),
            State::PairKey => self.pair_key(),
            State::PairValue => self.pair_value(),
            State::PairEnd => {
                self.close();
                self.states.push(State::FlowEntry { first: false });
                Ok(())
            }
            State::FlowKey { first } => self.flow_key(first),
            State::FlowValue => self.flow_value(),
            State::FlowNoValue => {
                let line = self.peek()?.line;
                self.empty(line, State::FlowKey { first: false })
            }
        }
    }

    fn block_entry(&mut self) -> Result<(), Error> {
        let lexeme = self.peek()?;
        let line = lexeme.line;
        match lexeme.token {
            Token::BlockEntry => {
                self.take();
                match self.peek()?.token {
                    Token::BlockEntry | Token::BlockEnd => self.empty(line, State::BlockEntry),
                    _ => self.inner(State::BlockEntry, Allow::Block),
                }
            }
            Token::BlockEnd => self.end(),
            _ => Err(Error::on_line(line, "did not find expected '-' indicator")),
        }
    }

    fn indentless_entry(&mut self) -> Result<(), Error> {
        let lexeme = self.peek()?;
        let line = lexeme.line;
        if !matches!(lexeme.token, Token::BlockEntry) {
            self.close();
            return Ok(());
        }
        self.take();
        match self.peek()?.token {
            Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd => {
                self.empty(line, State::IndentlessEntry)
            }
            _ => self.inner(State::IndentlessEntry, Allow::Block),
        }
    }

    fn block_key(&mut self) -> Result<(), Error> {
        let lexeme = self.peek()?;
        let line = lexeme.line;
        match lexeme.token {
            Token::Key => {
                self.take();
                match self.peek()?.token {
                    Token::Key | Token::Value | Token::BlockEnd => {
                        self.empty(line, State::BlockValue)
                    }
                    _ => self.inner(State::BlockValue, Allow::BlockOrIndentless),
                }
            }
            Token::BlockEnd => self.end(),
            _ => Err(Error::on_line(line, "did not find expected key")),
        }
    }

    fn block_value(&mut self) -> Result<(), Error> {
        let lexeme = self.peek()?;
        let line = lexeme.line;
        if matches!(lexeme.token, Token::Value) {
            self.take();
            if !matches!(self.peek()?.token, Token::Key | Token::Value | Token::BlockEnd) {
                return self.inner(State::BlockKey, Allow::BlockOrIndentless);
            }
        }
        self.empty(line, State::BlockKey)
    }

    fn flow_entry(&mut self, first: bool) -> Result<(), Error> {
        self.flow_separator(first, "did not find expected ',' or ']'", |token| {
            matches!(token, Token::FlowSequenceEnd)
        })?;
        let lexeme = self.peek()?;
        let line = lexeme.line;
        match lexeme.token {
            Token::FlowSequenceEnd => self.end(),
            Token::Key => {
                self.take();
                let id = self.document.open(line, true);
                self.open.push(id);
                self.states.push(State::PairKey);
                Ok(())
            }
            _ => self.inner(State::FlowEntry { first: false }, Allow::Flow),
        }
    }

    fn pair_key(&mut self) -> Result<(), Error> {
        let lexeme = self.peek()?;
        let line = lexeme.line;
        if matches!(lexeme.token, Token::Value | Token::FlowEntry | Token::FlowSequenceEnd) {
            // The reference takes the token without checking it.
            self.take();
            return self.empty(line, State::PairValue);
        }
        self.inner(State::PairValue, Allow::Flow)
    }

    fn pair_value(&mut self) -> Result<(), Error> {
        let lexeme = self.peek()?;
        let line = lexeme.line;
        if matches!(lexeme.token, Token::Value) {
            self.take();
            if !matches!(self.peek()?.token, Token::FlowEntry | Token::FlowSequenceEnd) {
                return self.inner(State::PairEnd, Allow::Flow);
            }
        }
        self.empty(line, State::PairEnd)
    }

    fn flow_key(&mut self, first: bool) -> Result<(), Error> {
        self.flow_separator(first, "did not find expected ',' or '}'", |token| {
            matches!(token, Token::FlowMappingEnd)
        })?;
        match self.peek()?.token {
            Token::FlowMappingEnd => self.end(),
            Token::Key => {
                self.take();
                let lexeme = self.peek()?;
                let line = lexeme.line;
                match lexeme.token {
                    Token::Value | Token::FlowEntry | Token::FlowMappingEnd => {
                        self.empty(line, State::FlowValue)
                    }
                    _ => self.inner(State::FlowValue, Allow::Flow),
                }
            }
            _ => self.inner(State::FlowNoValue, Allow::Flow),
        }
    }

    fn flow_value(&mut self) -> Result<(), Error> {
        if matches!(self.peek()?.token, Token::Value) {
            self.take();
            if !matches!(self.peek()?.token, Token::FlowEntry | Token::FlowMappingEnd) {
                return self.inner(State::FlowKey { first: false }, Allow::Flow);
            }
        }
        let line = self.peek()?.line;
        self.empty(line, State::FlowKey { first: false })
    }

    /// Consumes the comma before all entries but the first.
    fn flow_separator(
        &mut self,
        first: bool,
        problem: &str,
        is_end: fn(&Token<'_>) -> bool,
    ) -> Result<(), Error> {
        let lexeme = self.peek()?;
        if first || is_end(&lexeme.token) {
            return Ok(());
        }
        if !matches!(lexeme.token, Token::FlowEntry) {
            return Err(Error::on_line(lexeme.line, problem));
        }
        self.take();
        Ok(())
    }

    /// Parses a node with its properties.
    fn node(&mut self, allow: Allow) -> Result<(), Error> {
        let &Lexeme { ref token, line: start } = self.peek()?;
        if let &Token::Scalar { text, plain } = token {
            self.take();
            self.scalar(start, text, plain, Tag::None);
            return Ok(());
        }
        let mut anchor = None;
        let mut tag = None;
        loop {
            match self.peek()?.token {
                Token::Alias(name) if anchor.is_none() && tag.is_none() => {
                    self.take();
                    let Some(&target) = self.anchors.get(name) else {
                        return Err(Error::new(format!("unknown anchor '{name}' referenced")));
                    };
                    if self.open.binary_search(&target).is_ok() {
                        let fault = format!("anchor '{name}' value contains itself");
                        self.document.push_cycle(start, fault);
                    } else {
                        self.document.push_alias(start, target);
                    }
                    return Ok(());
                }
                Token::Anchor(name) if anchor.is_none() => anchor = Some(name),
                Token::Tag(_) if tag.is_none() => {}
                _ => break,
            }
            if let Some(Lexeme { token: Token::Tag(written), line }) = self.take() {
                tag = Some((written, line));
            }
        }
        let tag = match tag {
            None => Tag::None,
            Some((written, line)) => self.tag(written, line)?,
        };
        let lexeme = self.peek()?;
        let line = lexeme.line;
        let (state, mapping) = match lexeme.token {
            Token::BlockEntry if allow == Allow::BlockOrIndentless => {
                // The entry's `-` is the first of the sequence.
                let id = self.document.open(start, false);
                self.anchor(anchor, id);
                self.open.push(id);
                self.states.push(State::IndentlessEntry);
                return Ok(());
            }
            Token::Scalar { text, plain } => {
                self.take();
                let id = self.scalar(start, text, plain, tag);
                self.anchor(anchor, id);
                return Ok(());
            }
            Token::FlowSequenceStart => (State::FlowEntry { first: true }, false),
            Token::FlowMappingStart => (State::FlowKey { first: true }, true),
            Token::BlockSequenceStart if allow != Allow::Flow => (State::BlockEntry, false),
            Token::BlockMappingStart if allow != Allow::Flow => (State::BlockKey, true),
            _ if anchor.is_some() || tag != Tag::None => {
                let nothing = Text { in_scratch: false, start: 0, len: 0 };
                let id = self.scalar(start, nothing, tag == Tag::None, tag);
                self.anchor(anchor, id);
                return Ok(());
            }
            _ => return Err(Error::on_line(line, "did not find expected node content")),
        };
        self.take();
        let id = self.document.open(start, mapping);
        self.anchor(anchor, id);
        self.open.push(id);
        self.states.push(state);
        Ok(())
    }

    fn scalar(&mut self, line: u32, text: Text, plain: bool, tag: Tag) -> Id {
        let content = self.scanner.text(text);
        let implicit = plain && tag == Tag::None || tag == Tag::Bang;
        let merge = content == "<<" && (implicit || tag == Tag::Merge);
        let resolved = match (tag, plain) {
            (Tag::None, true) => Ok(implicit_type(content, true)),
            (Tag::None, false) => Ok(Resolved::Str),
            (tag, _) => resolve(tag, content),
        };
        let document = &mut self.document;
        let id = match resolved {
            Ok(Resolved::Null) => document.push_null(line),
            Ok(Resolved::Bool(is)) => document.push_bool(line, is),
            Ok(Resolved::Int(int)) => document.push_int(line, int),
            Ok(Resolved::Uint(uint)) => document.push_uint(line, uint),
            Ok(Resolved::Float(float)) => document.push_float(line, float),
            Ok(Resolved::Str | Resolved::Timestamp) => document.push_str(line, text),
            Ok(Resolved::Binary) => {
                let mut bytes = Vec::new();
                match base64::decode_into(content, &mut bytes) {
                    Ok(()) => document.push_str(line, self.scanner.keep(&bytes)),
                    Err(_) => {
                        let fault = "!!binary value contains invalid base64 data";
                        document.push_fault(line, fault.to_owned())
                    }
                }
            }
            Err(fault) => document.push_fault(line, fault),
        };
        if merge {
            document.mark_merge(id);
        }
        id
    }

    fn tag(&self, written: &str, line: u32) -> Result<Tag, Error> {
        let (handle, suffix) = tag::split(written);
        let prefix = match self.handles.iter().find(|(known, _)| *known == handle) {
            Some((_, prefix)) => prefix,
            None if handle.is_empty() => "",
            None => return Err(Error::on_line(line, "found undefined tag handle")),
        };
        match prefix {
            "tag:yaml.org,2002:" if !suffix.contains('%') => {
                return Ok(Tag::core(suffix.as_bytes()));
            }
            "!" => return Ok(Tag::Other),
            _ => {}
        }
        let mut uri = Vec::new();
        tag::unescape(prefix, &mut uri);
        tag::unescape(suffix, &mut uri);
        Ok(Tag::of(&uri))
    }

    fn anchor(&mut self, name: Option<&'a str>, id: Id) {
        if let Some(name) = name {
            self.anchors.insert(name, id);
        }
    }

    /// Parses a node inside a collection, then continues with a state.
    fn inner(&mut self, then: State, allow: Allow) -> Result<(), Error> {
        self.states.push(then);
        self.node(allow)
    }

    /// Adds null for a missing node.
    fn empty(&mut self, line: u32, then: State) -> Result<(), Error> {
        self.states.push(then);
        self.document.push_null(line);
        Ok(())
    }

    /// Consumes a collection's last token.
    fn end(&mut self) -> Result<(), Error> {
        self.take();
        self.close();
        Ok(())
    }

    fn close(&mut self) {
        if let Some(id) = self.open.pop() {
            self.document.close(id);
        }
    }

    fn peek(&mut self) -> Result<&Lexeme<'a>, Error> {
        self.scanner.peek()
    }

    fn take(&mut self) -> Option<Lexeme<'a>> {
        self.scanner.take()
    }
}

/// Limit on the nodes of a document. A document of request size with more is hostile: it has a node in every three
/// bytes.
const MAX_NODES: usize = 1 << 20;

/// Limit on the tag handles of a document.
const MAX_HANDLES: usize = 1000;
