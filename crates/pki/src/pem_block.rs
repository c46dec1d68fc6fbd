//! PEM as Go's `encoding/pem` reads it: text around blocks is ignored, and malformed blocks are skipped.

use kevel_codec::base64;
use std::str;

/// A block between `-----BEGIN` and `-----END`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemBlock {
    /// Label: `CERTIFICATE`.
    pub label: String,
    /// Whether headers such as `Proc-Type: 4,ENCRYPTED` stand before the contents.
    pub headers: bool,
    /// Decoded contents.
    pub contents: Vec<u8>,
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

impl PemBlock {
    /// The first block of a text, and the rest behind it.
    pub fn first(text: &[u8]) -> Option<(PemBlock, &[u8])> {
        let mut from = 0;
        loop {
            let end = from + position(text.get(from..)?, END)?;
            if let Some(found) = ending_at(text, from, end) {
                return Some(found);
            }
            from = end + END.len();
        }
    }

    /// All blocks of a text.
    pub fn all(mut text: &[u8]) -> impl Iterator<Item = PemBlock> {
        std::iter::from_fn(move || {
            let (block, rest) = PemBlock::first(text)?;
            text = rest;
            Some(block)
        })
    }
}

/// The block whose last line is at `end`, and whose first line is the last BEGIN line before it.
fn ending_at(text: &[u8], from: usize, end: usize) -> Option<(PemBlock, &[u8])> {
    let before = text.get(from..end)?;
    let begin = before.windows(BEGIN.len()).rposition(|window| window == BEGIN)?;
    if begin > 0 && before.get(begin - 1) != Some(&b'\n') {
        return None;
    }
    let (first, mut at) = line(text, from + begin + BEGIN.len());
    let label = first.strip_suffix(DASHES)?;
    let mut headers = false;
    while at < end {
        let (header, next) = line(text, at);
        if !header.contains(&b':') {
            break;
        }
        (headers, at) = (true, next);
    }
    if headers && at > end {
        return None;
    }
    let trailer = end + END.len();
    let last = text.get(trailer..)?.strip_prefix(label)?.strip_prefix(DASHES)?;
    if !line(last, 0).0.is_empty() {
        return None;
    }
    let mut contents = Vec::new();
    if at < end {
        let dense = text.get(at..end)?.iter().filter(|byte| !matches!(byte, b' ' | b'\t'));
        let dense: Vec<u8> = dense.copied().collect();
        base64::decode_into(str::from_utf8(&dense).ok()?, &mut contents).ok()?;
    }
    let (_, after) = line(text, trailer);
    let label = String::from_utf8_lossy(label).into_owned();
    Some((PemBlock { label, headers, contents }, text.get(after..).unwrap_or_default()))
}

/// The line at an offset, without trailing white space, and the offset of the next one.
fn line(text: &[u8], from: usize) -> (&[u8], usize) {
    let rest = text.get(from..).unwrap_or_default();
    let length = rest.iter().position(|byte| *byte == b'\n');
    let (line, next) = match length {
        Some(length) => (rest.get(..length).unwrap_or_default(), from + length + 1),
        None => (rest, text.len()),
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let blanks = line.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    (line.get(..line.len() - blanks).unwrap_or_default(), next)
}

fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_in_any_text() {
        for (text, expected) in [
            ("", &[][..]),
            ("-----BEGIN A-----\nYQ==\n-----END A-----", &["A a"]),
            ("-----BEGIN A-----\r\nYQ =\t=\r\n-----END A-----  \r\n", &["A a"]),
            ("text\n-----BEGIN A-----\nYWE=\n-----END A-----\nmore", &["A aa"]),
            ("-----BEGIN A-----\n-----END A-----\n", &["A "]),
            ("-----BEGIN A-----\nk: v\n\nYQ==\n-----END A-----\n", &["A* a"]),
            (
                "-----BEGIN A-----\nYQ==\n-----END A-----\n-----BEGIN B-----\nYg==\n-----END B-----",
                &["A a", "B b"],
            ),
            // The last BEGIN before an END counts.
            ("-----BEGIN A-----\n-----BEGIN B-----\nYg==\n-----END B-----\n", &["B b"]),
            // Malformed blocks are skipped.
            (
                "-----BEGIN A-----\n!\n-----END A-----\n-----BEGIN B-----\nYg==\n-----END B-----",
                &["B b"],
            ),
            ("x-----BEGIN A-----\nYQ==\n-----END A-----\n", &[]),
            ("-----BEGIN A-----\nYQ==\n-----END B-----\n", &[]),
            ("-----BEGIN A-----\nYQ==\n-----END A----- x\n", &[]),
            ("-----BEGIN A-----\nk: v\n-----END A-----\n", &[]),
        ] {
            let found: Vec<String> = PemBlock::all(text.as_bytes())
                .map(|block| {
                    let contents = String::from_utf8(block.contents).unwrap();
                    format!("{}{} {contents}", block.label, if block.headers { "*" } else { "" })
                })
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn three_megabytes_of_ends_cost_no_time() {
        let started = kevel_clock::Stopwatch::start();
        for piece in
            ["-----BEGIN A-----\nk: v\n-----END A-----\n", "\n-----END ", "-----BEGIN A-----\n"]
        {
            let text = piece.repeat((3 << 20) / piece.len());
            assert_eq!(PemBlock::all(text.as_bytes()).count(), 0);
        }
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
    }
}
