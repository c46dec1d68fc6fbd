//! Members of JSON objects as text, without decoding.

/// The members of a JSON object, keys without quotes, values as text. Yields `None` and ends where the text is not
/// JSON.
pub(super) fn members(object: &[u8]) -> Option<Members<'_>> {
    // Some writers end the JSON with a line break.
    let inner = object.trim_ascii().strip_prefix(b"{")?.strip_suffix(b"}")?;
    Some(Members { rest: inner, spaced: false })
}

pub(super) struct Members<'t> {
    pub rest: &'t [u8],
    /// Whether there was white space around a member so far.
    pub spaced: bool,
}

impl<'t> Iterator for Members<'t> {
    type Item = Option<(&'t [u8], &'t [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match self.member() {
            Some(member) => member.map(Some),
            None => {
                self.rest = &[];
                Some(None)
            }
        }
    }
}

impl<'t> Members<'t> {
    /// The next member; `Some(None)` if only white space is left.
    fn member(&mut self) -> Option<Option<(&'t [u8], &'t [u8])>> {
        let text = self.trimmed(self.rest);
        if text.is_empty() {
            self.rest = text;
            return Some(None);
        }
        let end = string_end(text)?;
        let key = text.get(1..end - 1)?;
        let after = self.trimmed(text.get(end..)?).strip_prefix(b":")?;
        let after = self.trimmed(after);
        let (value, rest) = after.split_at_checked(value_end(after)?)?;
        self.rest = match self.trimmed(rest).split_first() {
            None => &[],
            Some((b',', rest)) if !rest.trim_ascii_start().is_empty() => rest,
            Some(_) => return None,
        };
        Some(Some((key, value)))
    }

    fn trimmed(&mut self, text: &'t [u8]) -> &'t [u8] {
        match text.first() {
            Some(first) if first.is_ascii_whitespace() => {
                self.spaced = true;
                text.trim_ascii_start()
            }
            _ => text,
        }
    }
}

/// Whether a JSON object has white space around its members.
pub(super) fn is_spaced(object: &[u8]) -> Option<bool> {
    let mut members = members(object)?;
    members.by_ref().try_for_each(|member| member.map(drop))?;
    Some(members.spaced)
}

/// JSON without the white space outside of strings.
pub(super) fn compact(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(quote) = memchr::memchr(b'"', rest) {
        let (between, string) = rest.split_at(quote);
        out.extend(between.iter().filter(|byte| !byte.is_ascii_whitespace()));
        let (string, after) = string.split_at_checked(string_end(string)?)?;
        out.extend_from_slice(string);
        rest = after;
    }
    out.extend(rest.iter().filter(|byte| !byte.is_ascii_whitespace()));
    Some(out)
}

/// Length of the string that a text begins with, quotes included.
pub(super) fn string_end(text: &[u8]) -> Option<usize> {
    if text.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Length of the value that a text begins with.
pub(super) fn value_end(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => string_end(text),
        b'{' | b'[' => nested_end(text, 1),
        byte if byte.is_ascii_whitespace() => None,
        _ => {
            let ends = |c: &u8| matches!(c, b',' | b'}' | b']') || c.is_ascii_whitespace();
            Some(text.iter().position(ends).unwrap_or(text.len()))
        }
    }
}

/// Length of the rest of an object or list, from a place in it between two values on.
pub(super) fn nested_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 1usize;
    loop {
        let rest = text.get(at..)?;
        let token =
            rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
        at += token;
        match rest.get(token)? {
            b'"' => {
                at += string_end(&rest[token..])?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            _ => depth -= 1,
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}
