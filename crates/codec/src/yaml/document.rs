//! YAML document as a flat list of nodes, each before its content.

use super::scanner::Text;

/// Index of a node in its document.
pub(super) type Id = u32;

#[derive(Debug)]
pub(super) struct Document<'a> {
    pub source: &'a str,
    pub scratch: String,
    pub nodes: Vec<Node>,
    /// Errors of nodes: scalars that do not fit their tags, and cycles.
    pub faults: Vec<String>,
}

/// A node in 16 bytes: a hostile document has more than a million.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    kind: Kind,
    /// Whether it is the key `<<`, whose mappings are merged.
    merge: bool,
    line: u32,
    data: [u32; 2],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Null,
    Bool,
    Int,
    Uint,
    Float,
    SourceStr,
    ScratchStr,
    Sequence,
    Mapping,
    Alias,
    Cycle,
    Fault,
}

/// Content of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum View<'d> {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer that needs all 64 bits.
    Uint(u64),
    Float(f64),
    Str(&'d str),
    /// A sequence, with the index of the node after it.
    Sequence(Id),
    /// A mapping, with the index of the node after it; keys and values alternate.
    Mapping(Id),
    /// An alias of a node that does not contain the alias.
    Alias(Id),
    /// An alias of a collection that contains it.
    Cycle(&'d str),
    Fault(&'d str),
}

impl<'a> Document<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Document { source, scratch: String::new(), nodes: Vec::new(), faults: Vec::new() }
    }

    #[inline]
    pub(super) fn view(&self, id: Id) -> View<'_> {
        let Some(node) = self.nodes.get(id as usize) else { return View::Null };
        let [first, second] = node.data;
        let bits = u64::from(first) << 32 | u64::from(second);
        match node.kind {
            Kind::Null => View::Null,
            Kind::Bool => View::Bool(bits != 0),
            Kind::Int => View::Int(bits as i64),
            Kind::Uint => View::Uint(bits),
            Kind::Float => View::Float(f64::from_bits(bits)),
            Kind::SourceStr => View::Str(part(self.source, node.data)),
            Kind::ScratchStr => View::Str(part(&self.scratch, node.data)),
            Kind::Sequence => View::Sequence(first),
            Kind::Mapping => View::Mapping(first),
            Kind::Alias => View::Alias(first),
            Kind::Cycle => View::Cycle(self.fault(first)),
            Kind::Fault => View::Fault(self.fault(first)),
        }
    }

    fn fault(&self, at: u32) -> &str {
        self.faults.get(at as usize).map_or("", String::as_str)
    }

    /// The node, or the target of an alias.
    #[inline]
    pub(super) fn resolve(&self, id: Id) -> Id {
        match self.nodes.get(id as usize) {
            Some(&Node { kind: Kind::Alias, data: [target, _], .. }) => target,
            _ => id,
        }
    }

    /// Index of the node after this one and its content.
    #[inline]
    pub(super) fn after(&self, id: Id) -> Id {
        match self.nodes.get(id as usize) {
            Some(&Node { kind: Kind::Sequence | Kind::Mapping, data: [end, _], .. }) => end,
            _ => id + 1,
        }
    }

    #[inline]
    pub(super) fn is_merge(&self, id: Id) -> bool {
        self.nodes.get(id as usize).is_some_and(|node| node.merge)
    }

    pub(super) fn line(&self, id: Id) -> u32 {
        self.nodes.get(id as usize).map_or(0, |node| node.line)
    }

    pub(super) fn mark_merge(&mut self, id: Id) {
        if let Some(node) = self.nodes.get_mut(id as usize) {
            node.merge = true;
        }
    }

    fn push(&mut self, kind: Kind, line: u32, data: [u32; 2]) -> Id {
        let id = self.nodes.len() as Id;
        self.nodes.push(Node { kind, merge: false, line, data });
        id
    }

    pub(super) fn push_null(&mut self, line: u32) -> Id {
        self.push(Kind::Null, line, [0, 0])
    }

    pub(super) fn push_bool(&mut self, line: u32, is: bool) -> Id {
        self.push(Kind::Bool, line, [0, is.into()])
    }

    pub(super) fn push_int(&mut self, line: u32, int: i64) -> Id {
        self.push(Kind::Int, line, halves(int as u64))
    }

    pub(super) fn push_uint(&mut self, line: u32, uint: u64) -> Id {
        self.push(Kind::Uint, line, halves(uint))
    }

    pub(super) fn push_float(&mut self, line: u32, float: f64) -> Id {
        self.push(Kind::Float, line, halves(float.to_bits()))
    }

    pub(super) fn push_str(&mut self, line: u32, text: Text) -> Id {
        let kind = if text.in_scratch { Kind::ScratchStr } else { Kind::SourceStr };
        self.push(kind, line, [text.start, text.len])
    }

    pub(super) fn push_fault(&mut self, line: u32, fault: String) -> Id {
        self.faults.push(fault);
        self.push(Kind::Fault, line, [self.faults.len() as u32 - 1, 0])
    }

    pub(super) fn push_cycle(&mut self, line: u32, fault: String) -> Id {
        self.faults.push(fault);
        self.push(Kind::Cycle, line, [self.faults.len() as u32 - 1, 0])
    }

    pub(super) fn push_alias(&mut self, line: u32, target: Id) -> Id {
        self.push(Kind::Alias, line, [target, 0])
    }

    /// Begins a collection, which [`Document::close`] ends.
    pub(super) fn open(&mut self, line: u32, mapping: bool) -> Id {
        self.push(if mapping { Kind::Mapping } else { Kind::Sequence }, line, [0, 0])
    }

    pub(super) fn close(&mut self, id: Id) {
        let end = self.nodes.len() as Id;
        if let Some(node) = self.nodes.get_mut(id as usize) {
            node.data = [end, 0];
        }
    }
}

fn halves(bits: u64) -> [u32; 2] {
    [(bits >> 32) as u32, bits as u32]
}

fn part(of: &str, [start, len]: [u32; 2]) -> &str {
    of.get(start as usize..start as usize + len as usize).unwrap_or_default()
}
