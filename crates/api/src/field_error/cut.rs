//! Printing up to a size.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Mark at the end of a text that was cut.
const REST: &str = "...";

/// Text of `display`, cut after `max` bytes; the rest is not formatted at all.
pub fn print_up_to(max: usize, display: impl fmt::Display) -> String {
    let mut printer = Printer { out: String::new(), max };
    if write!(printer, "{display}").is_err() {
        printer.out.push_str(REST);
    }
    printer.out
}

/// Text cut to `max` bytes, followed by [`REST`] if it was cut.
pub fn cut(max: usize, text: &str) -> Cow<'_, str> {
    match text.len() > max {
        true => Cow::Owned(format!("{}{REST}", &text[..boundary(text, max)])),
        false => Cow::Borrowed(text),
    }
}

/// Owned text cut to `max` bytes.
pub(super) fn cut_owned(max: usize, mut text: String) -> String {
    if text.len() > max {
        text.truncate(boundary(&text, max));
        text.push_str(REST);
        text.shrink_to_fit();
    }
    text
}

/// Last character boundary at or before `max` bytes.
pub(crate) fn boundary(text: &str, max: usize) -> usize {
    let max = max.min(text.len());
    (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

struct Printer {
    out: String,
    max: usize,
}

impl fmt::Write for Printer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = self.max - self.out.len();
        let part = &text[..boundary(text, left)];
        self.out.push_str(part);
        if part.len() < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, expected) in
            [("", ""), ("abcd", "abcd"), ("abcde", "abcd..."), ("abcé", "abc...")]
        {
            assert_eq!(cut(4, text), expected);
            assert_eq!(cut_owned(4, text.to_owned()), expected);
            assert_eq!(print_up_to(4, text), expected);
        }
        assert_eq!(print_up_to(4, format_args!("{}{}{}", "ab", "cd", "")), "abcd");
        assert_eq!(print_up_to(4, format_args!("{}{}", "ab", "cde")), "abcd...");
    }
}
