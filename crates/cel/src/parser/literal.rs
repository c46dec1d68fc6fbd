//! Values of literals.

/// Removes the quotes of a string and resolves its escapes; the text of a bytes literal comes without its `b`. The
/// result for a string is valid UTF-8.
pub(super) fn unescape(text: &[char], bytes: bool) -> Result<Vec<u8>, &'static str> {
    let (raw, text) = match text {
        ['r' | 'R', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let text = match text {
        ['"', '"', '"', inner @ .., '"', '"', '"'] => inner,
        ['\'', '\'', '\'', inner @ .., '\'', '\'', '\''] => inner,
        ['"', inner @ .., '"'] | ['\'', inner @ .., '\''] => inner,
        _ => return Err("unable to unescape string"),
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = match first {
            // Line endings become \n.
            '\r' => {
                out.push(b'\n');
                tail.strip_prefix(&['\n']).unwrap_or(tail)
            }
            '\\' if !raw => escape(tail, bytes, &mut out)?,
            c => {
                push(*c, &mut out);
                tail
            }
        };
    }
    Ok(out)
}

/// Resolves an escape after its backslash; returns the rest of the text.
fn escape<'t>(
    text: &'t [char],
    bytes: bool,
    out: &mut Vec<u8>,
) -> Result<&'t [char], &'static str> {
    const BAD: &str = "unable to unescape string";
    let [kind, rest @ ..] = text else {
        return Err("unable to unescape string, found '\\' as last character");
    };
    let simple = match kind {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => *kind as u8,
        _ => 0,
    };
    if simple != 0 {
        out.push(simple);
        return Ok(rest);
    }
    let (digits, radix) = match kind {
        'x' | 'X' => (rest.get(..2), 16),
        'u' if !bytes => (rest.get(..4), 16),
        'U' if !bytes => (rest.get(..8), 16),
        '0'..='3' => (text.get(..3), 8),
        _ => return Err(BAD),
    };
    let digits: String = digits.ok_or(BAD)?.iter().collect();
    let code = u32::from_str_radix(&digits, radix).map_err(|_| BAD)?;
    match u8::try_from(code) {
        Ok(byte) if bytes => out.push(byte),
        _ => push(char::from_u32(code).ok_or("invalid unicode code point")?, out),
    }
    text.get(digits.len() + usize::from(radix == 16)..).ok_or(BAD)
}

fn push(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Parses an integer in decimal or, after `0x`, hexadecimal.
pub(super) fn integer<T>(text: &str, parse: impl Fn(&str, u32) -> Option<T>) -> Option<T> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    match digits.strip_prefix("0x") {
        Some(hex) => parse(&format!("{sign}{hex}"), 16),
        None => parse(text, 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        for (text, bytes, expected) in [
            (r#""a\tb""#, false, "a\tb"),
            (r"'\x41\u00e9\U0001F600\101'", false, "A\u{e9}\u{1f600}A"),
            ("'''a\"'b'''", false, "a\"'b"),
            (r"r'\n'", false, "\\n"),
            ("'''a\r\nb\rc'''", false, "a\nb\nc"),
            (r"'\xc3\xa9'", true, "\u{e9}"),
        ] {
            let text: Vec<char> = text.chars().collect();
            assert_eq!(unescape(&text, bytes).unwrap(), expected.as_bytes(), "{text:?}");
        }
        let bad: Vec<char> = r"'\ud800'".chars().collect();
        assert_eq!(unescape(&bad, false), Err("invalid unicode code point"));
    }
}
