//! Conversion of input bytes to text.

use std::borrow::Cow;

/// Input as text: every invalid byte of UTF-8 becomes U+FFFD, as in Go.
pub(super) fn text_of(input: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(input) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replaced(input)),
    }
}

fn replaced(input: &[u8]) -> String {
    let mut out = String::with_capacity(input.len() + 64);
    for chunk in input.utf8_chunks() {
        out.push_str(chunk.valid());
        for _ in chunk.invalid() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
    out
}

/// Byte of the input at a position of its text.
pub(super) fn byte_behind(input: &[u8], at: usize) -> Option<u8> {
    let (mut in_text, mut in_input) = (0, 0);
    for chunk in input.utf8_chunks() {
        let valid = chunk.valid().len();
        if at < in_text + valid {
            return input.get(in_input + at - in_text).copied();
        }
        in_text += valid;
        in_input += valid;
        for byte in chunk.invalid() {
            in_text += char::REPLACEMENT_CHARACTER.len_utf8();
            if at < in_text {
                return Some(*byte);
            }
            in_input += 1;
        }
    }
    None
}
