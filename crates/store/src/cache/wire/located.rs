//! Positions of several fields, found in one pass over an object.

use super::members::{nested_end, string_end, value_end};
use super::{FieldPath, Span};

/// Number of fields that one pass looks for: bits of a mask.
const AT_ONCE: usize = u64::BITS as usize;

/// Positions of the fields' values in wire bytes; an empty span for each that the object lacks.
pub(in super::super) fn locate_all(wire: &[u8], paths: &[FieldPath]) -> Box<[Span]> {
    let mut spans = vec![Span::default(); paths.len()];
    for (paths, spans) in paths.chunks(AT_ONCE).zip(spans.chunks_mut(AT_ONCE)) {
        kevel_compute::charge_bytes(wire.len());
        let all = u64::MAX >> (AT_ONCE - paths.len());
        let mut pass = LocatePass { wire, paths, spans, missing: all };
        // Where the text ends early, the fields behind it are missing.
        let _ = pass.object(pass.blank(0), 0, all);
    }
    for (path, span) in paths.iter().zip(&mut spans) {
        if path.otherwise.is_some() && span.len == 0 {
            *span = path.locate(wire);
        }
    }
    spans.into()
}

struct LocatePass<'t, 'p> {
    wire: &'t [u8],
    paths: &'p [FieldPath],
    spans: &'p mut [Span],
    /// The fields that may still be found. The pass ends when there are none.
    missing: u64,
}

/// Positions of a mask's bits.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.checked_sub(1)?;
        Some(bit as usize)
    })
}

impl LocatePass<'_, '_> {
    /// The next offset without white space.
    fn blank(&self, at: usize) -> usize {
        let rest = self.wire.get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
    }

    /// Walks an object at an offset, looking for fields whose paths lead into it. Returns the offset behind it, or
    /// any offset if no field is missing any more.
    fn object(&mut self, at: usize, depth: usize, mut wanted: u64) -> Option<usize> {
        if self.wire.get(at) != Some(&b'{') {
            return None;
        }
        let mut at = self.blank(at + 1);
        if self.wire.get(at) == Some(&b'}') {
            return Some(at + 1);
        }
        loop {
            let key = self.wire.get(at..)?;
            let end = string_end(key)?;
            let key = key.get(1..end - 1)?;
            let colon = self.blank(at + end);
            if self.wire.get(colon) != Some(&b':') {
                return None;
            }
            let named = self.named(key, depth, wanted);
            // Of a repeated key, the first counts.
            wanted &= !named;
            at = self.value(self.blank(colon + 1), depth, named)?;
            if self.missing == 0 {
                return Some(at);
            }
            if wanted == 0 {
                return nested_end(self.wire, at);
            }
            at = self.blank(at);
            match self.wire.get(at)? {
                b',' => at = self.blank(at + 1),
                b'}' => return Some(at + 1),
                _ => return None,
            }
        }
    }

    /// The fields whose path has this key at this depth.
    fn named(&self, key: &[u8], depth: usize, wanted: u64) -> u64 {
        let is_named = |field: &usize| {
            let keys = self.paths.get(*field).map(|path| path.keys.as_slice());
            keys.and_then(|keys| keys.get(depth)).is_some_and(|name| name.as_bytes() == key)
        };
        bits(wanted).filter(is_named).fold(0, |named, field| named | 1 << field)
    }

    /// Walks a value at an offset, which is that of fields or leads to them. Returns the offset behind it.
    fn value(&mut self, at: usize, depth: usize, named: u64) -> Option<usize> {
        let ends_here =
            |field: &usize| self.paths.get(*field).is_some_and(|path| path.keys.len() == depth + 1);
        let here = bits(named).filter(ends_here).fold(0, |here, field| here | 1u64 << field);
        let below = named & !here;
        // The end of a value that is itself asked for must be known.
        let missing = self.missing;
        self.missing |= here;
        let end = match below != 0 && self.wire.get(at) == Some(&b'{') {
            true => self.object(at, depth + 1, below)?,
            false => at + value_end(self.wire.get(at..)?)?,
        };
        self.missing = self.missing & missing & !named;
        for field in bits(here) {
            if let Some(span) = self.spans.get_mut(field) {
                *span = text_span(self.wire.get(at..end)?, at);
            }
        }
        Some(end)
    }
}

/// A value's text: strings without their quotes; booleans and numbers as they are.
fn text_span(value: &[u8], start: usize) -> Span {
    let quoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    let (skip, len) = quoted.map_or((0, value.len()), |text| (1, text.len()));
    Span { start: (start + skip) as u32, len: len as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, the same in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as usize % end
        }

        /// JSON of few keys, so that paths are found; sometimes with white space.
        fn value(&mut self, depth: usize) -> String {
            let kind = self.below(if depth == 0 { 4 } else { 8 });
            match kind {
                0 => "true".to_owned(),
                1 => self.below(1000).to_string(),
                2 | 3 => {
                    let texts = [r#""""#, r#""v""#, r#""{\"a\":\"b\"}""#, r#""]}\\""#];
                    texts[self.below(4)].to_owned()
                }
                4 => {
                    let items: Vec<_> = (0..self.below(3)).map(|_| self.value(depth - 1)).collect();
                    format!("[{}]", items.join(","))
                }
                _ => self.object(depth - 1),
            }
        }

        fn object(&mut self, depth: usize) -> String {
            let members: Vec<String> = (0..self.below(5))
                .map(|_| {
                    let (key, colon) = (["a", "b", "ab", "c"][self.below(4)], [":", ": ", " :"]);
                    format!(r#""{key}"{}{}"#, colon[self.below(3)], self.value(depth))
                })
                .collect();
            format!("{{{}}}", members.join([",", ", ", "\n,"][self.below(3)]))
        }

        fn path(&mut self) -> String {
            let keys: Vec<&str> =
                (0..1 + self.below(3)).map(|_| ["a", "b", "ab", "c"][self.below(4)]).collect();
            keys.join(".")
        }
    }

    #[test]
    fn one_pass_finds_what_single_searches_find() {
        let (mut random, mut found) = (Random(0x9e37_79b9_7f4a_7c15), 0);
        for round in 0..20_000 {
            let object = random.object(3);
            let paths: Vec<FieldPath> = (0..random.below(if round % 100 == 0 { 150 } else { 8 }))
                .map(|_| {
                    let (path, other) = (random.path(), random.path());
                    let path = FieldPath::new(&path, &path);
                    if random.below(4) == 0 { path.otherwise_at(&other) } else { path }
                })
                .collect();
            let expected: Vec<Span> =
                paths.iter().map(|path| path.locate(object.as_bytes())).collect();
            let all = locate_all(object.as_bytes(), &paths);
            for ((path, expected), span) in paths.iter().zip(&expected).zip(&all) {
                assert_eq!(
                    span.of(object.as_bytes()),
                    expected.of(object.as_bytes()),
                    "{path:?} in {object}"
                );
                found += usize::from(span.len > 0);
            }
        }
        assert!(found > 10_000, "{found}");
    }

    #[test]
    fn damaged_text_has_no_fields_behind_the_damage() {
        let paths = ["a", "b.c", "d"].map(|path| FieldPath::new(path, path));
        for (text, values) in [
            ("", ["", "", ""]),
            ("[]", ["", "", ""]),
            (r#"{"a":"1","#, ["1", "", ""]),
            (r#"{"a":"1","b":{"c":2"#, ["1", "2", ""]),
            (r#"{"a":"1" "b":{"c":2}}"#, ["1", "", ""]),
        ] {
            let found = locate_all(text.as_bytes(), &paths);
            let found: Vec<_> = found.iter().map(|span| span.of(text.as_bytes())).collect();
            assert_eq!(found, values.map(Some), "{text}");
        }
    }
}
