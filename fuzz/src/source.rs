//! Source of a target's kinds, decisions and documents: the input bytes.

use kevel_api::builtin::{self, Kind};
use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any};

use crate::generate::Generator;

/// The input of a target, in one of two forms.
///
/// - Text: a line with an API version, a kind and decisions (`apps/v1 Deployment abc`), then a JSON
///   document a line. This is what people and seeds write.
/// - Bytes: two for the kind; the others decide what objects are made of, field by field, along their
///   schema. This is what a fuzzer changes well. The first byte tells it from text: it is no letter.
#[derive(Debug)]
pub struct Source<'d> {
    kind: &'static Kind,
    form: Form<'d>,
}

#[derive(Debug)]
enum Form<'d> {
    Text { decisions: &'d [u8], lines: std::slice::Split<'d, u8, fn(&u8) -> bool> },
    Bytes(Generator<'d>),
}

impl<'d> Source<'d> {
    /// Reads the beginning of an input; `None` for one that is too short.
    pub fn new(data: &'d [u8]) -> Option<Self> {
        let kinds = builtin::kinds();
        if data.first()?.is_ascii_lowercase() {
            let mut lines = data.split((|byte| *byte == b'\n') as fn(&u8) -> bool);
            let mut words = lines.next()?.splitn(3, |byte| *byte == b' ');
            let (version, name) = (words.next()?, words.next()?);
            let kind = kinds.iter().find(|kind| is(kind, version, name))?;
            let decisions = words.next().unwrap_or_default();
            return Some(Source { kind, form: Form::Text { decisions, lines } });
        }
        let ([a, b], rest) = data.split_first_chunk()?;
        let kind = &kinds[usize::from(u16::from_le_bytes([*a, *b])) % kinds.len()];
        Some(Source { kind, form: Form::Bytes(Generator::new(rest)) })
    }

    /// The kind that the input is about.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// `apps/v1`
    pub fn api_version(&self) -> String {
        api_version(self.kind)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        match &mut self.form {
            Form::Text { decisions, .. } => {
                let Some((first, rest)) = decisions.split_first() else { return 0 };
                *decisions = rest;
                usize::from(*first) % end
            }
            Form::Bytes(generator) => generator.below(end),
        }
    }

    /// The tree of a document that may be of this type; `None` when there are no more.
    pub fn tree(&mut self, schema: Schema<'_>) -> Option<Value> {
        match &mut self.form {
            Form::Text { lines, .. } => read(lines.next()?),
            Form::Bytes(generator) => generator.object(schema),
        }
    }

    /// The tree of a patch for a document of this type: a map, or the list of a JSON patch.
    pub fn patch(&mut self, document: &Value, schema: Schema<'_>) -> Option<Value> {
        match &mut self.form {
            Form::Text { lines, .. } => read(lines.next()?),
            Form::Bytes(generator) => generator.patch(document, schema),
        }
    }
}

fn read(line: &[u8]) -> Option<Value> {
    decode_any(line, Unknown::Ignore).ok().map(|read| read.value)
}

fn is(kind: &Kind, version: &[u8], name: &[u8]) -> bool {
    kind.name.as_bytes() == name && api_version(kind).as_bytes() == version
}

fn api_version(kind: &Kind) -> String {
    match kind.group {
        "" => kind.version.to_owned(),
        group => format!("{group}/{}", kind.version),
    }
}
