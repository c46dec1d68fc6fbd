//! Links in HTML: a streaming scanner that knows just enough HTML to find attributes with links. All other bytes stay
//! unchanged.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder, GzDecoder, GzEncoder};

/// Attributes with links, by element.
const LINKS: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// End tags of elements whose contents are not HTML.
const RAW: [&str; 9] = [
    "</iframe",
    "</noembed",
    "</noframes",
    "</plaintext",
    "</script",
    "</style",
    "</textarea",
    "</title",
    "</xmp",
];

/// Longest tag that is parsed; a longer one stays unchanged.
const MAX_TAG: usize = 64 << 10;

type Rewrite = Box<dyn Fn(&str) -> Option<String> + Send>;

/// Rewrites links in streamed HTML.
pub(super) struct Html {
    rewrite: Rewrite,
    state: State,
    /// Begun tag or comment, or a possible beginning of its end.
    begun: Vec<u8>,
    quotes: Quotes,
}

enum State {
    Text,
    /// After `<`.
    Tag,
    /// After `<!--`, until `-->`.
    Comment,
    /// In an element of [`RAW`], until that end tag.
    Raw(&'static str),
}

impl Html {
    /// A scanner that replaces the links for which `rewrite` returns another one.
    pub fn new(rewrite: Rewrite) -> Self {
        Html { rewrite, state: State::Text, begun: Vec::new(), quotes: Quotes::default() }
    }

    /// Takes some HTML, and writes the part that is complete.
    pub fn push(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        while !input.is_empty() {
            input = match &self.state {
                State::Text => self.text(input, out),
                State::Tag => self.tag(input, out),
                State::Comment => self.comment(input, out),
                State::Raw(end) => {
                    let end = end.as_bytes();
                    self.raw(end, input, out)
                }
            };
        }
    }

    /// Writes the rest at the end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.begun);
    }

    fn text<'i>(&mut self, input: &'i [u8], out: &mut Vec<u8>) -> &'i [u8] {
        let Some(at) = memchr(b'<', input) else {
            out.extend_from_slice(input);
            return &[];
        };
        out.extend_from_slice(&input[..at]);
        self.begun.push(b'<');
        (self.state, self.quotes) = (State::Tag, Quotes::default());
        &input[at + 1..]
    }

    fn tag<'i>(&mut self, input: &'i [u8], out: &mut Vec<u8>) -> &'i [u8] {
        let Some((&byte, rest)) = input.split_first() else { return &[] };
        // After `<`, only a name, `/`, `!` or `?` begins a tag.
        if self.begun.len() == 1 && !byte.is_ascii_alphabetic() && !b"/!?".contains(&byte) {
            out.append(&mut self.begun);
            self.state = State::Text;
            return input;
        }
        self.begun.push(byte);
        if self.begun == b"<!--" {
            out.append(&mut self.begun);
            self.state = State::Comment;
            return rest;
        }
        let is_start = self.begun.get(1).is_some_and(u8::is_ascii_alphabetic);
        let ends = byte == b'>' && !(is_start && self.quotes.are_open());
        self.quotes.next(byte);
        if ends || self.begun.len() > MAX_TAG {
            let tag = std::mem::take(&mut self.begun);
            self.state = match is_start {
                true => self.start_tag(&tag, out),
                false => {
                    out.extend_from_slice(&tag);
                    State::Text
                }
            };
        }
        rest
    }

    /// Writes a start tag, and returns the next state.
    fn start_tag(&self, tag: &[u8], out: &mut Vec<u8>) -> State {
        let Ok(text) = std::str::from_utf8(tag) else {
            out.extend_from_slice(tag);
            return State::Text;
        };
        let end = text[1..].find(|c: char| c.is_ascii_whitespace() || "/>".contains(c));
        let (front, rest) = text.split_at(end.map_or(text.len(), |end| end + 1));
        let name = front[1..].to_ascii_lowercase();
        out.extend_from_slice(front.as_bytes());
        let links = LINKS.iter().find(|(element, _)| *element == name);
        match links {
            Some((_, links)) => self.attributes(rest, links, out),
            None => out.extend_from_slice(rest.as_bytes()),
        }
        let raw = RAW.iter().find(|raw| raw[2..] == name && !text.ends_with("/>"));
        raw.map_or(State::Text, |raw| State::Raw(raw))
    }

    fn attributes(&self, mut rest: &str, links: &[&str], out: &mut Vec<u8>) {
        let is_space = |c: char| c.is_ascii_whitespace() || c == '/';
        while !rest.is_empty() {
            let (space, after) = split(rest, |c| !is_space(c));
            let (name, after) = split(after, |c| is_space(c) || "=>".contains(c));
            let (gap, value) = split(after, |c| !c.is_ascii_whitespace());
            out.extend_from_slice(&rest.as_bytes()[..rest.len() - after.len()]);
            let Some(value) = value.strip_prefix('=') else {
                // An attribute without a value, or the end. At least one character is consumed.
                let taken = if space.is_empty() && name.is_empty() { 1 } else { 0 };
                let (end, next) = after.split_at(taken.min(after.len()));
                out.extend_from_slice(end.as_bytes());
                rest = next;
                continue;
            };
            out.extend_from_slice(gap.as_bytes());
            out.push(b'=');
            let (gap, value) = split(value, |c| !c.is_ascii_whitespace());
            out.extend_from_slice(gap.as_bytes());
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            let (value, next) = match quote {
                Some(quote) => {
                    let (value, next) = split(&value[1..], |c| c == quote);
                    (value, next.strip_prefix(quote).unwrap_or(next))
                }
                None => split(value, |c| c.is_ascii_whitespace() || c == '>'),
            };
            let is_link = links.iter().any(|link| name.eq_ignore_ascii_case(link));
            let rewritten = Some(value).filter(|_| is_link).and_then(|url| (self.rewrite)(url));
            let quote = match (quote, &rewritten) {
                (None, Some(_)) => Some('"'),
                (quote, _) => quote,
            };
            let quote = quote.map(String::from).unwrap_or_default();
            let value = rewritten.as_deref().unwrap_or(value);
            out.extend_from_slice(format!("{quote}{value}{quote}").as_bytes());
            rest = next;
        }
    }

    fn comment<'i>(&mut self, input: &'i [u8], out: &mut Vec<u8>) -> &'i [u8] {
        let Some((&byte, rest)) = input.split_first() else { return &[] };
        out.push(byte);
        match byte {
            b'-' if self.begun.len() < 2 => self.begun.push(b'-'),
            b'-' => {}
            b'>' if self.begun.len() == 2 => {
                self.begun.clear();
                self.state = State::Text;
            }
            _ => self.begun.clear(),
        }
        rest
    }

    fn raw<'i>(&mut self, end: &[u8], input: &'i [u8], out: &mut Vec<u8>) -> &'i [u8] {
        let Some((&byte, rest)) = input.split_first() else { return &[] };
        out.push(byte);
        self.begun.push(byte.to_ascii_lowercase());
        if self.begun == end {
            self.begun.clear();
            self.state = State::Text;
        } else if !end.starts_with(&self.begun) {
            self.begun.clear();
            if byte == b'<' {
                self.begun.push(b'<');
            }
        }
        rest
    }
}

/// Splits a text before the first character that matches.
fn split(text: &str, is: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is).unwrap_or(text.len()))
}

fn memchr(byte: u8, bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|other| *other == byte)
}

/// Whether the scanner is inside a quoted attribute value, which follows a `=`.
#[derive(Default)]
struct Quotes {
    open: Option<u8>,
    value: bool,
}

impl Quotes {
    fn are_open(&self) -> bool {
        self.open.is_some()
    }

    fn next(&mut self, byte: u8) {
        match self.open {
            Some(quote) if byte == quote => self.open = None,
            Some(_) => {}
            None if self.value && matches!(byte, b'"' | b'\'') => {
                (self.open, self.value) = (Some(byte), false);
            }
            None if byte.is_ascii_whitespace() => {}
            None => self.value = byte == b'=',
        }
    }
}

/// A page that may be compressed.
pub(super) enum Coded {
    Plain(Vec<u8>),
    Gzip(Box<GzDecoder<Vec<u8>>>, Box<GzEncoder<Vec<u8>>>),
    Deflate(Box<DeflateDecoder<Vec<u8>>>, Box<DeflateEncoder<Vec<u8>>>),
}

impl Coded {
    /// The decoder and encoder of a `Content-Encoding`, if known.
    pub fn new(encoding: &str) -> Option<Self> {
        let made = Vec::new;
        Some(match encoding {
            "" => Coded::Plain(made()),
            "gzip" => Coded::Gzip(
                Box::new(GzDecoder::new(made())),
                Box::new(GzEncoder::new(made(), Compression::fast())),
            ),
            "deflate" => Coded::Deflate(
                Box::new(DeflateDecoder::new(made())),
                Box::new(DeflateEncoder::new(made(), Compression::fast())),
            ),
            _ => return None,
        })
    }

    /// Takes a part of the page.
    pub fn push(&mut self, input: &[u8], html: &mut Html) -> io::Result<()> {
        let mut rewritten = Vec::new();
        match self {
            Coded::Plain(out) => html.push(input, out),
            Coded::Gzip(decoder, encoder) => {
                decoder.write_all(input)?;
                html.push(&std::mem::take(decoder.get_mut()), &mut rewritten);
                encoder.write_all(&rewritten)?;
            }
            Coded::Deflate(decoder, encoder) => {
                decoder.write_all(input)?;
                html.push(&std::mem::take(decoder.get_mut()), &mut rewritten);
                encoder.write_all(&rewritten)?;
            }
        }
        Ok(())
    }

    /// Number of bytes ready to be sent.
    pub fn made(&self) -> usize {
        match self {
            Coded::Plain(out) => out.len(),
            Coded::Gzip(_, encoder) => encoder.get_ref().len(),
            Coded::Deflate(_, encoder) => encoder.get_ref().len(),
        }
    }

    /// Takes the bytes that are ready.
    pub fn take(&mut self) -> Bytes {
        let out = match self {
            Coded::Plain(out) => out,
            Coded::Gzip(_, encoder) => encoder.get_mut(),
            Coded::Deflate(_, encoder) => encoder.get_mut(),
        };
        std::mem::take(out).into()
    }

    /// The rest, after the last part.
    pub fn finish(&mut self, html: &mut Html) -> io::Result<Bytes> {
        let mut rewritten = Vec::new();
        match self {
            Coded::Plain(out) => html.finish(out),
            Coded::Gzip(decoder, encoder) => {
                decoder.try_finish()?;
                html.push(&std::mem::take(decoder.get_mut()), &mut rewritten);
                html.finish(&mut rewritten);
                encoder.write_all(&rewritten)?;
                encoder.try_finish()?;
            }
            Coded::Deflate(decoder, encoder) => {
                decoder.try_finish()?;
                html.push(&std::mem::take(decoder.get_mut()), &mut rewritten);
                html.finish(&mut rewritten);
                encoder.write_all(&rewritten)?;
                encoder.try_finish()?;
            }
        }
        Ok(self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(input: &str, step: usize) -> String {
        let prefix = |url: &str| url.starts_with('/').then(|| format!("/p{url}"));
        let mut html = Html::new(Box::new(prefix));
        let mut out = Vec::new();
        input.as_bytes().chunks(step).for_each(|piece| html.push(piece, &mut out));
        html.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn links_are_found_where_they_are() {
        for (input, expected) in [
            ("<a href=\"/x\">y</a>", "<a href=\"/p/x\">y</a>"),
            ("<A class=b HREF = '/x' >", "<A class=b HREF = '/p/x' >"),
            ("<img src=/x/>", "<img src=\"/p/x/\">"),
            ("<img alt=\"a > b\" src=\"/x\"/>", "<img alt=\"a > b\" src=\"/p/x\"/>"),
            ("<a href=\"x\" href>", "<a href=\"x\" href>"),
            ("<p href=\"/x\">1 < 2 <", "<p href=\"/x\">1 < 2 <"),
            (
                "<!-- <a href=\"/x\"> --><a href=\"/x\">",
                "<!-- <a href=\"/x\"> --><a href=\"/p/x\">",
            ),
            (
                "<script src=\"/s\">'<a href=\"/x\">'</script><a href=\"/x\">",
                "<script src=\"/p/s\">'<a href=\"/x\">'</script><a href=\"/p/x\">",
            ),
            ("<!doctype html><link rel=x href='/y'>", "<!doctype html><link rel=x href='/p/y'>"),
            ("</a href=\"/x\"><a href=\"/x", "</a href=\"/x\"><a href=\"/x"),
            ("<a href=\"/x?a=1&amp;b=2\">", "<a href=\"/p/x?a=1&amp;b=2\">"),
        ] {
            for step in [1, 3, 1000] {
                assert_eq!(rewritten(input, step), expected, "in steps of {step}");
            }
        }
    }

    #[test]
    fn a_tag_that_does_not_end_is_not_kept() {
        let input = format!("<a {}", "x".repeat(2 * MAX_TAG));
        let mut html = Html::new(Box::new(|_| None));
        let mut out = Vec::new();
        html.push(input.as_bytes(), &mut out);
        assert!(out.len() > MAX_TAG);
        html.finish(&mut out);
        assert_eq!(out, input.as_bytes());
    }

    #[test]
    fn compressed_pages_are_rewritten() {
        let mut page = GzEncoder::new(Vec::new(), Compression::fast());
        page.write_all(b"<a href='/x'>").unwrap();
        let page = page.finish().unwrap();
        let mut html = Html::new(Box::new(|_| Some("/y".to_owned())));
        let mut coded = Coded::new("gzip").unwrap();
        for piece in page.chunks(5) {
            coded.push(piece, &mut html).unwrap();
        }
        let mut decoder = GzDecoder::new(Vec::new());
        decoder.write_all(&coded.finish(&mut html).unwrap()).unwrap();
        assert_eq!(decoder.finish().unwrap(), b"<a href='/y'>");
        assert!(Coded::new("br").is_none());
    }
}
